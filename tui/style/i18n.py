"""Translation of texts with gettext. English is the source language.

A translation is a catalog `assets/locales/<lang>/LC_MESSAGES/grpo_wizard.mo`; gettext chooses it from LANGUAGE,
LC_ALL, LC_MESSAGES and LANG, in that order. Write `_("Text with {name}").format(name=…)`, never an f-string inside
`_()`: the catalog's key must be constant.
"""

from __future__ import annotations

import gettext as _gettext
from functools import cache
from importlib.resources import files

DOMAIN = "grpo_wizard"


@cache
def _catalog() -> _gettext.NullTranslations:
    return _gettext.translation(DOMAIN, str(files("grpo_wizard.assets") / "locales"), fallback=True)


def _(message: str) -> str:
    """Translate `message` into the user's language."""
    return _catalog().gettext(message)


def ngettext(singular: str, plural: str, n: int) -> str:
    """Translate the plural form for `n`; the caller inserts the number with `.format(n=n)`."""
    return _catalog().ngettext(singular, plural, n)
