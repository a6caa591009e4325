"""Taking down, as lines: what goes, what stays, what is lost with it; then the name, then how it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.engine.options import DestroyOptions
from grpo_wizard.tui.plain.context import PlainSession, Quit
from grpo_wizard.tui.plain.run import start_run
from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.viewmodels.destroy import DestroyItem, data_loss_warning, destroy_items, split
from grpo_wizard.tui.viewmodels.spending import format_remaining_cost


class DestroyView:
    """Nothing is deleted before the deployment's name has been typed. `run` returns the place to go to."""

    def __init__(self, ui: PlainSession) -> None:
        self.ui, self.controller, self.console = ui, ui.active_controller, ui.console
        self.checkpoint_steps: Sequence[int] = ()

    def run(self) -> str:
        """Looks, lists, asks for the name."""
        self.ui.print_heading(
            _("Tear down {name}").format(name=self.controller.name),
            _("Only what this deployment made is deleted."),
        )
        try:
            listed, self.checkpoint_steps = self.ui.wait(_("looking at the cloud"), self._read_destroy_plan())
        except WizardError as error:
            self.ui.print_error(error)
            return self._retry_menu()
        keeps = any(fate.deleted and fate.retained_with_lustre for fate in listed) and self.console.confirm(
            _("Keep Lustre and its network? Both go on costing.")
        )
        goes, stays = split(listed, keeps)
        self._print_items(goes, stays)
        if (
            self.console.ask(
                _("Type the deployment's name, {name}, to tear it down (Enter changes nothing):").format(
                    name=self.controller.name
                )
            )
            != self.controller.name
        ):
            self.console.print(_("Nothing was changed."))
            return ""
        start_run(self.ui, DestroyOptions(keep=frozenset({"lustre"} if keeps else ())))
        return "run" if self.ui.engine is not None else ""

    async def _read_destroy_plan(self) -> tuple[list[DestroyItem], Sequence[int]]:
        from grpo_wizard.steps.engine.apply import plan
        from grpo_wizard.steps.engine.options import ApplyOptions
        from grpo_wizard.steps.jobs.checkpoints import known_checkpoint_steps

        session = await self.controller.session()
        decisions = await plan(session, ApplyOptions(), strict=True)
        return destroy_items(decisions), await asyncio.to_thread(known_checkpoint_steps, session)

    def _print_items(self, deleted: Sequence[DestroyItem], kept: Sequence[DestroyItem]) -> None:
        for fate in deleted:
            self.console.print(_("Goes: {kind} {name}").format(kind=fate.kind, name=fate.name))
        for fate in kept:
            why = f": {fate.retain_reason}" if fate.retain_reason else ""
            self.console.print(_("Stays: {kind} {name}").format(kind=fate.kind, name=fate.name) + why)
        self.console.print(
            ngettext("{n} thing goes, {m} stay.", "{n} things go, {m} stay.", len(deleted)).format(
                n=len(deleted), m=len(kept)
            )
        )
        self.console.print(
            format_remaining_cost((item.usd_per_hour for item in kept), free=self.controller.is_rehearsal)
        )
        if text := data_loss_warning(deleted, self.checkpoint_steps):
            self.console.print(_("Warning: {text}").format(text=text))

    def _retry_menu(self) -> str:
        chosen = self.console.choose(
            "", {"r": _("look again"), "b": _("back to the deployments"), "l": _("leave")}, "r"
        )
        if chosen == "l":
            raise Quit
        return "teardown" if chosen == "r" else ""
