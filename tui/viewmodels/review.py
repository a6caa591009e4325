"""The lines of Review, each with its sign; and why it cannot be launched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from grpo_wizard.steps.core.durations import duration
from grpo_wizard.steps.core.model import Field, Refused, Step
from grpo_wizard.steps.core.tutorial_differences import DIFFERENCES
from grpo_wizard.steps.engine.preflight import Checked, blocking
from grpo_wizard.steps.registry import STEPS, step
from grpo_wizard.tui.controllers.draft import Draft
from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.style.icons import fit, sign

if TYPE_CHECKING:
    from grpo_wizard.state.errors import WizardError
    from grpo_wizard.steps.engine.plan import Decision
    from grpo_wizard.tui.controllers.deployment import Desk


_TITLE_WIDTH, _GAP = 12, "  "


def short_title(each: Step) -> str:
    """Of a step, for a column of its own."""
    return each.title.partition(" and ")[0]


@dataclass(frozen=True)
class Row:
    """One line. `key`: a step's name, difference, adopt, replace, anyway; empty for a heading. `on`: its switch."""

    key: str
    title: str
    body: str = ""
    sign: str = ""
    on: bool | None = None
    switch: tuple[str, Any] = ("", None)

    @property
    def about(self) -> str:
        """In full, where the line itself has no room for it."""
        return (
            ""
            if not self.body or (self.key != "always" and self.on is None and len(self.body) < 40)
            else f"{self.title}: {self.body}"
        )

    def text(self, colours: Mapping[str, str], width: int) -> Text:
        """Fitted to the width; what is wrong stands out."""
        text = Text(no_wrap=True, end="", overflow="ellipsis")
        if self.key == "" and not self.sign:
            return text.append(fit(self.title.upper(), width), f"bold {colours['muted']}")
        if self.on is not None:
            text.append("[x] " if self.on else "[ ] ", "bold")
            text.append(fit(self.title, min(cell_len(self.title), width - 4)))
            room = width - 6 - cell_len(self.title)
            return text.append("  " + fit(self.body, room), colours["muted"]) if room > 8 else text
        if self.key == "always":
            done = sign(self.sign)
            text.append(f" {done.glyph}  ", colours[done.colour]).append(
                fit(self.title, min(cell_len(self.title), width - 4))
            )
            return text.append(
                "  " + fit(self.body, max(0, width - 6 - cell_len(self.title))), colours["muted"]
            )
        mark = sign(self.sign) if self.sign else None
        text.append(fit(self.title, _TITLE_WIDTH) + _GAP, "bold")
        tail = f"{_GAP}{mark}" if mark else ""
        text.append(fit(self.body, max(10, width - _TITLE_WIDTH - len(_GAP) - cell_len(tail))))
        if mark:
            text.append(tail, colours[mark.colour])
        return text


@dataclass
class Choices:
    """What the user allowed in Review."""

    adopt: bool = False
    anyway: bool = False
    replaced: set[str] = field(default_factory=set)

    def switch(self, row: Row) -> None:
        """The line's own switch."""
        if row.key == "adopt":
            self.adopt = not self.adopt
        elif row.key == "anyway":
            self.anyway = not self.anyway
        elif row.key == "replace":
            self.replaced ^= {row.switch[0]}

    def words(self) -> list[str]:
        """As the command line says it."""
        words = ["--adopt"] if self.adopt else []
        for id in sorted(self.replaced):
            words += ["--replace", id]
        return words + (["--skip-checks"] if self.anyway else [])


def rows(
    draft: Draft, decisions: Sequence[Decision] | None, found: Sequence[Checked] | None, choices: Choices
) -> list[Row]:
    """All of them."""
    return [
        *_answers(draft, found),
        *_findings(found, choices),
        *_plan(decisions, choices),
        *_differences(draft),
    ]


def _answers(draft: Draft, found: Sequence[Checked] | None) -> Iterator[Row]:
    answers, missing = draft.look()
    stuck = {checked.step for checked in blocking(found or ())}
    for each in STEPS:
        wrong = [key.partition(".")[2] for key in missing if key.partition(".")[0] == each.name]
        if wrong:
            labels = ", ".join(each.field(name).label for name in wrong)
            yield Row(
                each.name,
                short_title(each),
                _("missing or refused: {names}").format(names=labels),
                "block",
            )
            continue
        parts = [
            part
            for f in each.fields
            if not f.advanced
            and f.kind != "secret"
            and draft.is_shown(f)
            and (part := _said(f, answers[each.name].get(f.name)))
        ]
        yield Row(each.name, short_title(each), " · ".join(parts), "block" if each.name in stuck else "done")


def _said(field: Field, value: Any) -> str:
    """A value with as many words as it needs to be understood alone."""
    if field.kind == "switch":
        return field.label if value else ""
    if field.unit:
        return f"{value:,} {field.unit}" if isinstance(value, int) else f"{value} {field.unit}"
    if field.kind in ("integer", "number"):
        return f"{value} {field.label[:1].lower() + field.label[1:] if field.label[1:2].islower() else field.label}"
    return "" if value in (None, "", []) else str(value)


def _findings(found: Sequence[Checked] | None, choices: Choices) -> Iterator[Row]:
    if found is None:
        return
    listed = [c for c in found if c.finding.level in ("block", "warn")]
    if not listed:
        return
    yield Row("", _("Found in the cloud"))
    for checked in sorted(listed, key=lambda c: c.finding.level != "block"):
        seen = checked.finding
        yield Row(
            checked.step,
            short_title(step(checked.step)),
            seen.title + (f" → {seen.fix}" if seen.fix else ""),
            seen.level,
        )
    if blocking(found):
        yield Row(
            "anyway", _("start although a check blocks"), _("it will probably fail there"), on=choices.anyway
        )


def _plan(decisions: Sequence[Decision] | None, choices: Choices) -> Iterator[Row]:
    if decisions is None:
        return
    adopted = [d for d in decisions if d.action == "adopt"]
    conflicts = [d for d in decisions if d.action in ("conflict", "replace")]
    if adopted or conflicts:
        yield Row("", _("There already"))
    if adopted:
        names = ", ".join(d.resource.name for d in adopted)
        text = ngettext(
            "adopt {n} thing that is there and fits", "adopt {n} things that are there and fit", len(adopted)
        ).format(n=len(adopted))
        yield Row("adopt", text, names, on=choices.adopt)
    for d in conflicts:
        if d.action == "replace" or f"--replace {d.resource.id}" in d.note:
            text = _("delete and make anew: {name}").format(name=f"{d.resource.kind} {d.resource.name}")
            yield Row(
                "replace",
                text,
                d.note.partition(";")[0],
                on=d.resource.id in choices.replaced,
                switch=(d.resource.id, None),
            )
        else:
            yield Row(
                d.resource.step, _("conflict"), f"{d.resource.kind} {d.resource.name} {d.note}", "block"
            )


def _differences(draft: Draft) -> Iterator[Row]:
    answers, _missing = draft.look()
    yield Row("", _("Better than the tutorial (space switches one off)"))
    for d in DIFFERENCES:
        try:
            on = d.on(answers)
        except KeyError:
            continue
        if d.switch is not None:
            yield Row("difference", d.what, d.why, on=on, switch=d.switch)
    for d in DIFFERENCES:
        if d.switch is None:
            yield Row("always", d.what, d.why, "done")


def switch_difference(draft: Draft, row: Row) -> None:
    """Off takes the tutorial's own value, on goes back to the default. Saved at once. Raises StateError."""
    step_name, _dot, field_name = row.switch[0].partition(".")
    field = step(step_name).field(field_name)
    if row.on:
        draft.set(step_name, field, row.switch[1])
    else:
        draft.working[step_name].pop(field_name, None)
        try:
            draft.set(step_name, field, field.default_for(draft.look()[0]))
        except (Refused, KeyError):
            return
    draft.save_step(step_name, "review")


def reason_against(
    desk: Desk, decisions: Sequence[Decision] | None, found: Sequence[Checked] | None, choices: Choices
) -> str:
    """The first reason why it cannot be launched; empty when it can."""
    missing = desk.draft.look()[1]
    if missing:
        labels = [_label(key) for key in missing]
        return _("missing or refused: {names}").format(names=", ".join(labels))
    if not desk.writable:
        who = desk.held_by
        return _("{command} (process {pid}) works on it").format(
            command=who.command if who else "", pid=who.pid if who else 0
        )
    if decisions is None or found is None:
        return _("still looking at the cloud")
    conflicts = [d for d in decisions if d.action == "conflict"]
    if conflicts:
        return _("conflict: {name} {note}").format(name=conflicts[0].resource.name, note=conflicts[0].note)
    if any(d.action == "adopt" for d in decisions) and not choices.adopt:
        return _("things are there that this deployment did not make: switch adopt on, or choose other names")
    blocked = blocking(found)
    if blocked and not choices.anyway:
        more = f" (+{len(blocked) - 1})" if len(blocked) > 1 else ""
        return _("blocked: {title}").format(title=blocked[0].finding.title) + more
    return ""


def _label(key: str) -> str:
    step_name, _dot, name = key.partition(".")
    return next(each.field(name).label for each in STEPS if each.name == step_name)


def bottom_lines(
    desk: Desk,
    decisions: Sequence[Decision] | None,
    colours: Mapping[str, str],
    error: WizardError | None = None,
) -> Text:
    """Plan, price and time; what is unknown is named, never guessed. `error` is why the cloud could not be looked at."""
    from grpo_wizard.state import errors
    from grpo_wizard.steps.engine.plan import expected_parts, making_words, price
    from grpo_wizard.steps.registry import all_resources

    head, text = f"bold {colours['muted']}", Text(end="")
    try:
        resources = all_resources(desk.answers())
    except errors.WizardError:
        return text.append(_("Price and time follow when the answers are complete."), colours["muted"])
    known, unknown = price(resources)
    names = ", ".join(id.split(".", 2)[2] for id in unknown)
    text.append(_("PRICE") + "  ", head).append(_("known {usd} USD/h").format(usd=f"{known:.2f}"))
    text.append(" + " + _("unknown: {names}").format(names=names) if unknown else "")
    if desk.is_rehearsal:
        text.append("   " + _("(free here)"), colours["muted"])
    if decisions is None:
        text.append("\n" + _("PLAN") + "   ", head)
        if error is None:
            return text.append(_("looking at the cloud…"), colours["muted"])
        return text.append(error.title, colours["error"]).append(f" → {error.command or error.fix}")
    counts = Counter(d.action for d in decisions)
    text.append("\n" + _("PLAN") + "   ", head).append(
        ", ".join(f"{n} to {action}" for action, n in counts.items())
    )
    training = expected_parts(decisions)[1]
    text.append("   " + _("TIME") + "  ", head).append(making_words(decisions))
    text.append(" + " + _("training {time}").format(time=duration(training[1])) if training[1] else "")
    return text.append("   " + _("MEMORY") + "  ", head).append(memory_line(desk))


def memory_line(desk: Desk) -> str:
    """How full a GPU is while it trains, in one clause."""
    from grpo_wizard.steps.grpo.memory import estimate

    found = estimate(desk.answers())
    if found.share is None:
        return _("unknown")
    return _("{share} ({colour})").format(share=f"{found.share:.0%}", colour=found.colour)
