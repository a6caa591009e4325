"""The lines of the Review screen with their status, the summary, and why Launch is disabled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from grpo_wizard.steps.core.answers import Field, InvalidValue, NotAnswered
from grpo_wizard.steps.core.durations import format_duration
from grpo_wizard.steps.core.model import CheckFinding, Step
from grpo_wizard.steps.core.tutorial_differences import DIFFERENCES
from grpo_wizard.steps.engine.options import ApplyOptions
from grpo_wizard.steps.engine.preflight import CheckResult, blocking
from grpo_wizard.steps.pricing.book import PriceBook
from grpo_wizard.steps.registry import STEPS, step
from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.style.icons import status_icon, truncate
from grpo_wizard.tui.viewmodels.spending import SpendingReview, review_spending

if TYPE_CHECKING:
    from grpo_wizard.state.errors import WizardError
    from grpo_wizard.steps.engine.plan import Decision
    from grpo_wizard.tui.controllers.deployment import DeploymentController
    from grpo_wizard.tui.controllers.draft import Draft


_TITLE_WIDTH, _GAP = 12, "  "


def short_title(each: Step) -> str:
    """The step's title, shortened to fit a column."""
    return each.title.partition(" and ")[0]


@dataclass(frozen=True)
class ReviewRow:
    """One line.

    `key`: a step's name, difference, always, adopt, replace or anyway; empty for a heading. `status`: key of a status
    icon. `enabled`: state of its switch, None without one. `target`: what the switch changes.
    """

    key: str
    title: str
    body: str = ""
    status: str = ""
    enabled: bool | None = None
    target: tuple[str, Any] = ("", None)

    @property
    def description(self) -> str:
        """The text in full, where the line itself may be too short for it."""
        return (
            ""
            if not self.body or (self.key != "always" and self.enabled is None and len(self.body) < 40)
            else f"{self.title}: {self.body}"
        )

    def text(self, colours: Mapping[str, str], width: int) -> Text:
        """The line, fitted to `width` cells."""
        text = Text(no_wrap=True, end="", overflow="ellipsis")
        if self.key == "" and not self.status:
            return text.append(truncate(self.title.upper(), width), f"bold {colours['muted']}")
        if self.enabled is not None:
            text.append("[x] " if self.enabled else "[ ] ", "bold")
            text.append(truncate(self.title, min(cell_len(self.title), width - 4)))
            rest = width - 6 - cell_len(self.title)
            return text.append("  " + truncate(self.body, rest), colours["muted"]) if rest > 8 else text
        if self.key == "always":
            done = status_icon(self.status)
            text.append(f" {done.glyph}  ", colours[done.colour]).append(
                truncate(self.title, min(cell_len(self.title), width - 4))
            )
            return text.append(
                "  " + truncate(self.body, max(0, width - 6 - cell_len(self.title))), colours["muted"]
            )
        icon = status_icon(self.status) if self.status else None
        text.append(truncate(self.title, _TITLE_WIDTH) + _GAP, "bold")
        tail = f"{_GAP}{icon}" if icon else ""
        text.append(truncate(self.body, max(10, width - _TITLE_WIDTH - len(_GAP) - cell_len(tail))))
        if icon:
            text.append(tail, colours[icon.colour])
        return text


@dataclass
class ReviewOptions:
    """What the user allowed on the Review screen."""

    adopt: bool = False
    skip_checks: bool = False
    replace_ids: set[str] = field(default_factory=set)

    def toggle(self, row: ReviewRow) -> None:
        """Toggle the switch of `row`."""
        if row.key == "adopt":
            self.adopt = not self.adopt
        elif row.key == "anyway":
            self.skip_checks = not self.skip_checks
        elif row.key == "replace":
            self.replace_ids ^= {row.target[0]}

    def apply_options(self) -> ApplyOptions:
        """The same as options of `apply`."""
        return ApplyOptions(
            adopt=self.adopt, replace=tuple(sorted(self.replace_ids)), skip_checks=self.skip_checks
        )


def review_rows(
    draft: Draft,
    decisions: Sequence[Decision] | None,
    check_results: Sequence[CheckResult] | None,
    options: ReviewOptions,
    price_book: PriceBook,
) -> list[ReviewRow]:
    """All lines: answers, findings of the checks, existing resources, and differences from the tutorial."""
    spending = review_spending(draft, decisions, price_book, accept_unpriced=options.skip_checks)
    return [
        *_answers(draft, check_results),
        *_findings(check_results, spending, options),
        *_plan(decisions, options),
        *_differences(draft),
    ]


def _answers(draft: Draft, check_results: Sequence[CheckResult] | None) -> Iterator[ReviewRow]:
    answers, missing = draft.validate()
    blocked = {result.step for result in blocking(check_results or ())}
    for each in STEPS:
        invalid = [key.partition(".")[2] for key in missing if key.partition(".")[0] == each.name]
        if invalid:
            labels = ", ".join(each.field(name).label for name in invalid)
            yield ReviewRow(
                each.name,
                short_title(each),
                _("missing or invalid: {names}").format(names=labels),
                "block",
            )
            continue
        parts = [
            part
            for f in each.fields
            if not f.advanced
            and f.kind != "secret"
            and draft.is_shown(f)
            and (part := _format_value(f, answers.of(each.name).get(f.name)))
        ]
        yield ReviewRow(
            each.name, short_title(each), " · ".join(parts), "block" if each.name in blocked else "done"
        )


def _format_value(field: Field, value: object) -> str:
    """A value with the unit or label that makes it clear on its own."""
    if field.kind == "switch":
        return field.label if value else ""
    if field.unit:
        return f"{value:,} {field.unit}" if isinstance(value, int) else f"{value} {field.unit}"
    if field.kind in ("integer", "number"):
        return f"{value} {field.label[:1].lower() + field.label[1:] if field.label[1:2].islower() else field.label}"
    return "" if value in (None, "", []) else str(value)


def _findings(
    check_results: Sequence[CheckResult] | None, spending: SpendingReview, options: ReviewOptions
) -> Iterator[ReviewRow]:
    if check_results is None:
        return
    listed = [c for c in check_results if c.finding.level in ("block", "warn")]
    money = spending.blocker or spending.notice
    if not listed and not money:
        return
    yield ReviewRow("", _("Check findings"))
    if money:
        yield ReviewRow("project", _("Spending"), money, "block" if spending.blocker else "warn")
    for result in sorted(listed, key=lambda c: c.finding.level != "block"):
        finding = result.finding
        yield ReviewRow(
            result.step,
            short_title(step(result.step)),
            _finding_text(finding) + (f" → {finding.fix}" if finding.fix else ""),
            finding.level,
        )
    if blocking(check_results) or spending.overridable:
        yield ReviewRow(
            "anyway",
            _("Launch despite failed checks"),
            _("the deployment will probably fail"),
            enabled=options.skip_checks,
        )


def _finding_text(finding: CheckFinding) -> str:
    return f"{finding.title}: {finding.detail}" if finding.detail else finding.title


def _plan(decisions: Sequence[Decision] | None, options: ReviewOptions) -> Iterator[ReviewRow]:
    if decisions is None:
        return
    adopted = [d for d in decisions if d.action == "adopt"]
    conflicts = [d for d in decisions if d.action in ("conflict", "replace")]
    if adopted or conflicts:
        yield ReviewRow("", _("Existing resources"))
    if adopted:
        names = ", ".join(d.resource.name for d in adopted)
        text = ngettext("Adopt {n} matching resource", "Adopt {n} matching resources", len(adopted)).format(
            n=len(adopted)
        )
        yield ReviewRow("adopt", text, names, enabled=options.adopt)
    for d in conflicts:
        if d.action == "replace" or f"--replace {d.resource.id}" in d.note:
            text = _("Replace {name} (delete and re-create)").format(
                name=f"{d.resource.kind} {d.resource.name}"
            )
            yield ReviewRow(
                "replace",
                text,
                d.note.partition(";")[0],
                enabled=d.resource.id in options.replace_ids,
                target=(d.resource.id, None),
            )
        else:
            yield ReviewRow(
                d.resource.step, _("conflict"), f"{d.resource.kind} {d.resource.name} {d.note}", "block"
            )


def _differences(draft: Draft) -> Iterator[ReviewRow]:
    answers, _missing = draft.validate()
    yield ReviewRow("", _("Improvements over the tutorial (press Space to turn one off)"))
    for d in DIFFERENCES:
        try:
            enabled = d.is_enabled(answers)
        except NotAnswered:
            continue
        if d.opt_out is not None:
            yield ReviewRow("difference", d.what, d.why, enabled=enabled, target=d.opt_out)
    for d in DIFFERENCES:
        if d.opt_out is None:
            yield ReviewRow("always", d.what, d.why, "done")


def toggle_difference(draft: Draft, row: ReviewRow) -> None:
    """Set the tutorial's value (off), or the default (on), and save it. Raises StateError."""
    step_name, _dot, field_name = row.target[0].partition(".")
    field = step(step_name).field(field_name)
    if row.enabled:
        draft.set(step_name, field, row.target[1])
    else:
        draft.working_answers[step_name].pop(field_name, None)
        try:
            draft.set(step_name, field, field.default_for(draft.validate()[0]))
        except (InvalidValue, NotAnswered):
            return
    draft.save_step(step_name, "review")


def launch_blocker(
    controller: DeploymentController,
    decisions: Sequence[Decision] | None,
    check_results: Sequence[CheckResult] | None,
    options: ReviewOptions,
) -> str:
    """The first reason why Launch is disabled; empty if it is enabled."""
    missing = controller.draft.validate()[1]
    if missing:
        labels = [_label(key) for key in missing]
        return _("missing or invalid: {names}").format(names=", ".join(labels))
    if not controller.writable:
        owner = controller.lock_owner
        return _("locked by {command} (process {pid})").format(
            command=owner.command if owner else "", pid=owner.pid if owner else 0
        )
    if decisions is None or check_results is None:
        return _("reading cloud resources…")
    conflicts = [d for d in decisions if d.action == "conflict"]
    if conflicts:
        return _("conflict: {name} {note}").format(name=conflicts[0].resource.name, note=conflicts[0].note)
    if any(d.action == "adopt" for d in decisions) and not options.adopt:
        return _("Some resources already exist. Turn on Adopt or choose different names.")
    blocked = blocking(check_results)
    if blocked and not options.skip_checks:
        more = " " + _("(and {n} more)").format(n=len(blocked) - 1) if len(blocked) > 1 else ""
        return _("check failed: {finding}").format(finding=_finding_text(blocked[0].finding)) + more
    return review_spending(
        controller.draft, decisions, controller.price_book, accept_unpriced=options.skip_checks
    ).blocker


def _label(key: str) -> str:
    step_name, _dot, name = key.partition(".")
    return next(each.field(name).label for each in STEPS if each.name == step_name)


def plan_summary(
    controller: DeploymentController,
    decisions: Sequence[Decision] | None,
    colours: Mapping[str, str],
    error: WizardError | None = None,
) -> Text:
    """Price, plan, time and memory; what is unknown is named. `error`: why the cloud could not be read."""
    from grpo_wizard.state import errors
    from grpo_wizard.steps.engine.estimate import estimated_phases, format_setup_estimate
    from grpo_wizard.steps.pricing.book import hourly_cost
    from grpo_wizard.steps.registry import all_resources

    head, text = f"bold {colours['muted']}", Text(end="")
    try:
        resources = all_resources(controller.answers(), controller.price_book)
    except errors.WizardError:
        return text.append(_("The price and time will appear once all answers are set."), colours["muted"])
    known, unknown = hourly_cost(resources)
    names = ", ".join(id.split(".", 2)[2] for id in unknown)
    text.append(_("PRICE") + "  ", head).append(f"{known:.2f} USD/h")
    text.append(" + " + _("unpriced: {names}").format(names=names) if unknown else "")
    if controller.is_rehearsal:
        text.append("   " + _("(free in a rehearsal)"), colours["muted"])
    if decisions is None:
        text.append("\n" + _("PLAN") + "   ", head)
        if error is None:
            return text.append(_("reading cloud resources…"), colours["muted"])
        return text.append(error.title, colours["error"]).append(f" → {error.command or error.fix}")
    counts = Counter(d.action for d in decisions)
    actions = ", ".join(
        ngettext("{n} conflict", "{n} conflicts", n).format(n=n)
        if action == "conflict"
        else _("{n} to {action}").format(n=n, action=action)
        for action, n in counts.items()
    )
    text.append("\n" + _("PLAN") + "   ", head).append(actions)
    training = estimated_phases(decisions)[1]
    text.append("   " + _("TIME") + "  ", head).append(format_setup_estimate(decisions))
    text.append(" + " + _("training {time}").format(time=format_duration(training[1])) if training[1] else "")
    return text.append("   " + _("MEMORY") + "  ", head).append(memory_summary(controller))


def memory_summary(controller: DeploymentController) -> str:
    """The estimated share of GPU memory in use during training, and whether it fits."""
    from grpo_wizard.steps.grpo.memory import estimate_run

    estimate = estimate_run(controller.answers())
    if estimate.share is None:
        return _("unknown")
    labels = {"ok": _("fits"), "tight": _("tight"), "oom": _("does not fit")}
    return f"{estimate.share:.0%} ({labels.get(estimate.fit, estimate.fit)})"
