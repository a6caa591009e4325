"""Destroy: lists what is deleted, what is kept and what is lost, then asks for the deployment's name."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.engine.options import DestroyOptions
from grpo_wizard.tui.plain.context import PlainSession, Quit
from grpo_wizard.tui.plain.run import start_run
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.destroy import DestroyItem, data_loss_warning, destroy_items, split
from grpo_wizard.tui.viewmodels.spending import format_remaining_cost


class DestroyView:
    """Deletes nothing until the deployment's name is typed. `run` returns the name of the next view."""

    def __init__(self, ui: PlainSession) -> None:
        self.ui, self.controller, self.console = ui, ui.active_controller, ui.console
        self.checkpoint_steps: Sequence[int] = ()

    def run(self) -> str:
        self.ui.print_heading(
            _("Destroy {name}").format(name=self.controller.name),
            _("Deletes only what this deployment created."),
        )
        try:
            items, self.checkpoint_steps = self.ui.wait(
                _("reading existing resources"), self._read_destroy_plan()
            )
        except WizardError as error:
            self.ui.print_error(error)
            return self._retry_menu()
        keep_lustre = any(
            item.deleted and item.retained_with_lustre for item in items
        ) and self.console.confirm(_("Keep Lustre and its network? Both will still be billed."))
        deleted, kept = split(items, keep_lustre)
        self._print_items(deleted, kept)
        name = self.controller.name
        prompt = _("Type the deployment's name, {name}, to destroy it (cancel):").format(name=name)
        if self.console.ask(prompt) != name:
            self.console.print(_("Nothing was changed."))
            return ""
        start_run(self.ui, DestroyOptions(keep=frozenset({"lustre"} if keep_lustre else ())))
        return "run" if self.ui.engine is not None else ""

    async def _read_destroy_plan(self) -> tuple[list[DestroyItem], Sequence[int]]:
        from grpo_wizard.steps.engine.apply import plan
        from grpo_wizard.steps.engine.options import ApplyOptions
        from grpo_wizard.steps.jobs.checkpoints import known_checkpoint_steps

        session = await self.controller.session()
        decisions = await plan(session, ApplyOptions(), strict=True)
        return destroy_items(decisions), await asyncio.to_thread(known_checkpoint_steps, session)

    def _print_items(self, deleted: Sequence[DestroyItem], kept: Sequence[DestroyItem]) -> None:
        for item in deleted:
            self.console.print(_("Delete: {kind} {name}").format(kind=item.kind, name=item.name))
        for item in kept:
            reason = f": {item.retain_reason}" if item.retain_reason else ""
            self.console.print(_("Keep: {kind} {name}").format(kind=item.kind, name=item.name) + reason)
        self.console.print(_("{n} to delete, {m} to keep.").format(n=len(deleted), m=len(kept)))
        self.console.print(
            format_remaining_cost((item.usd_per_hour for item in kept), free=self.controller.is_rehearsal)
        )
        if text := data_loss_warning(deleted, self.checkpoint_steps):
            self.console.print(_("Warning: {text}").format(text=text))

    def _retry_menu(self) -> str:
        options = {"r": _("try again"), "b": _("back to the deployments"), "l": _("leave")}
        chosen = self.console.choose("", options, "r")
        if chosen == "l":
            raise Quit
        return "teardown" if chosen == "r" else ""
