"""What was found out about a step's answers: level, title, detail and the one fix, also while looking."""

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

_ORDER = {"block": 0, "warn": 1, "look": 2, "pass": 3, "info": 4}


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check. `level`: block, warn, look (still looking), pass or info. `fix` may be empty."""

    id: str
    level: str
    title: str
    detail: str = ""
    fix: str = ""


class Checks(Widget):
    """Findings, the worst first. `show` replaces all, `put` one; `stale` says that answers changed since."""

    DEFAULT_CSS = """
    Checks { height: auto; width: 1fr; border-top: solid $line; border-title-color: $muted;
             border-title-style: bold; }
    """
    findings: reactive[tuple[CheckRow, ...]] = reactive((), layout=True)
    stale: reactive[bool] = reactive(False)
    invalid_count: reactive[int] = reactive(0)
    """How many answers of the step are refused: what they would block cannot be looked at."""

    def on_mount(self) -> None:
        """Names the box."""
        self._update_border_title()

    def show(self, findings: Iterable[CheckRow]) -> None:
        """These and no others, freshly looked at."""
        self.findings = tuple(sorted(findings, key=lambda finding: _ORDER[finding.level]))
        self.stale = False

    def upsert(self, finding: CheckRow) -> None:
        """Replaces the finding of the same id, or adds it."""
        kept = [other for other in self.findings if other.id != finding.id]
        self.show([*kept, finding])

    @property
    def blocks(self) -> bool:
        """Whether one forbids to go on, or is not known yet."""
        return self.stale or any(finding.level in {"block", "look"} for finding in self.findings)

    def watch_findings(self) -> None:
        """Counts in the box's edge."""
        self._update_border_title()

    def watch_stale(self) -> None:
        """What was counted holds no more."""
        self._update_border_title()

    def watch_invalid_count(self) -> None:
        """An answer was refused, or mended."""
        self._update_border_title()

    def _update_border_title(self) -> None:
        told = self.findings or self.invalid_count
        self.border_title = f" {_('Checks')} · {self.summary()} " if told else f" {_('Checks')} "

    def render(self) -> Table | Text:
        """A table of sign and text; texts wrap under themselves."""
        colours = self.app.theme_variables
        if not self.findings:
            return Text(" " + _("nothing to check here"), colours["muted"])
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=8, no_wrap=True)
        table.add_column(ratio=1)
        for finding in self.findings:
            mark = status_icon("look" if self.stale else finding.level)
            body = Text().append(finding.title, "bold" if finding.level == "block" else "")
            if finding.detail:
                body.append(f"  {finding.detail}", colours["muted"])
            if finding.fix:
                body.append(f"\n→ {finding.fix}", colours["primary"])
            table.add_row(Text(str(mark), colours[mark.colour]), body)
        return table

    def summary(self) -> str:
        """One sentence: how many are refused, how many block, how many warn."""
        counts, parts = Counter(finding.level for finding in self.findings), list[str]()
        if n := self.invalid_count:
            parts.append(ngettext("{n} answer refused", "{n} answers refused", n).format(n=n))
        if n := counts["block"]:
            parts.append(ngettext("{n} block", "{n} blocks", n).format(n=n))
        if n := counts["warn"]:
            parts.append(ngettext("{n} warning", "{n} warnings", n).format(n=n))
        if counts["look"] or self.stale:
            parts.append(_("still looking"))
        return ", ".join(parts) or (_("nothing blocks") if counts["info"] else _("all pass"))
