"""The findings of a step's checks: level, title, detail and fix, updated while checks run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.style.icons import status_icon

_LEVEL_CELLS = 10
_ORDER = {"block": 0, "warn": 1, "look": 2, "pass": 3, "info": 4}


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One finding. `level`: block, warn, look (still running), pass or info. `detail` and `fix` may be empty."""

    id: str
    level: str
    title: str
    detail: str = ""
    fix: str = ""


class Checks(Widget):
    """Findings, the worst first. `stale`: answers have changed since."""

    DEFAULT_CSS = """
    Checks { height: auto; width: 1fr; border-top: solid $line; border-title-color: $muted;
             border-title-style: bold; }
    """
    findings: reactive[tuple[CheckRow, ...]] = reactive((), layout=True)
    stale: reactive[bool] = reactive(False)
    invalid_count: reactive[int] = reactive(0)
    """Number of invalid answers of the step; checks that need them cannot run."""

    def on_mount(self) -> None:
        """Set the border title."""
        self._update_border_title()

    def show(self, findings: Iterable[CheckRow]) -> None:
        """Replace all findings."""
        self.findings = tuple(sorted(findings, key=lambda finding: _ORDER[finding.level]))
        self.stale = False

    def upsert(self, finding: CheckRow) -> None:
        """Replace the finding with the same id, or add it."""
        others = [other for other in self.findings if other.id != finding.id]
        self.show([*others, finding])

    @property
    def blocks(self) -> bool:
        """Whether a finding blocks, or is not known yet."""
        return self.stale or any(finding.level in {"block", "look"} for finding in self.findings)

    def watch_findings(self) -> None:
        """Update the counts in the border title."""
        self._update_border_title()

    def watch_stale(self) -> None:
        """Update the counts in the border title."""
        self._update_border_title()

    def watch_invalid_count(self) -> None:
        """Update the counts in the border title."""
        self._update_border_title()

    def _update_border_title(self) -> None:
        known = self.findings or self.invalid_count
        self.border_title = f" {_('Checks')} · {self.summary()} " if known else f" {_('Checks')} "

    def render(self) -> Table | Text:
        """Render a table of level and text; long texts wrap within their column."""
        colours = self.app.theme_variables
        if not self.findings:
            return Text(" " + _("This step has no checks."), colours["muted"])
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=_LEVEL_CELLS, no_wrap=True)
        table.add_column(ratio=1)
        for finding in self.findings:
            icon = status_icon("look" if self.stale else finding.level)
            body = Text().append(finding.title, "bold" if finding.level == "block" else "")
            if finding.detail:
                body.append(f"  {finding.detail}", colours["muted"])
            if finding.fix:
                body.append(f"\n→ {finding.fix}", colours["primary"])
            table.add_row(Text(str(icon), colours[icon.colour]), body)
        return table

    def summary(self) -> str:
        """Count invalid answers, blocking findings and warnings in one line."""
        counts, parts = Counter(finding.level for finding in self.findings), list[str]()
        if n := self.invalid_count:
            parts.append(ngettext("{n} invalid answer", "{n} invalid answers", n).format(n=n))
        if n := counts["block"]:
            parts.append(ngettext("{n} blocker", "{n} blockers", n).format(n=n))
        if n := counts["warn"]:
            parts.append(ngettext("{n} warning", "{n} warnings", n).format(n=n))
        if counts["look"] or self.stale:
            parts.append(_("running"))
        return ", ".join(parts) or (_("no blockers") if counts["info"] else _("all passed"))
