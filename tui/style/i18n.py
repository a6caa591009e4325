"""Texts in the user's language. English is the source.

A translation is a catalogue `assets/locales/<lang>/LC_MESSAGES/grpo_wizard.mo`; which one is gettext's own
choice (LANGUAGE, LC_ALL, LC_MESSAGES, LANG, in that order). Write `_("Text with {name}").format(name=…)`,
never an f-string inside `_()`: the catalogue's key must be constant.
"""

from __future__ import annotations

import gettext as _gettext
from functools import cache
from importlib.resources import files

DOMAIN = "grpo_wizard"


@cache
def _catalogue() -> _gettext.NullTranslations:
    return _gettext.translation(DOMAIN, str(files("grpo_wizard.assets") / "locales"), fallback=True)


def _(message: str) -> str:
    """`message` in the user's language, or as it is."""
    return _catalogue().gettext(message)


def ngettext(singular: str, plural: str, n: int) -> str:
    """The form that fits `n`; the caller fills the number in by `.format(n=n)`."""
    return _catalogue().ngettext(singular, plural, n)
