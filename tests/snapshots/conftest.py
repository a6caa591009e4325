"""A fixed environment: snapshots must not depend on the machine."""

from __future__ import annotations

import pytest
import textual

# Minor releases of Textual change how some borders are drawn (its changelog: "may break snapshots").
_SEEN_WITH = "8.2."


@pytest.fixture(autouse=True)
def _fixed_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    if not textual.__version__.startswith(_SEEN_WITH):
        pytest.skip(f"the snapshots were taken with Textual {_SEEN_WITH}x, this is {textual.__version__}")
    for name in ("NO_COLOR", "TEXTUAL_ANIMATIONS", "LANGUAGE", "GRPO_WIZARD_ASCII"):
        monkeypatch.delenv(name, raising=False)
