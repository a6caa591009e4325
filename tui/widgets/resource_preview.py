"""What a step creates: how many things, and the command for each; arrows go through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from grpo_wizard.steps.core.model import Resource
from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.widgets.command_line import CommandLine


class ResourcePreview(CommandLine):
    """A CommandLine over several resources. `y` copies the one that is shown, `Y` all of them."""

    HELP = _(
        "What this step creates, with the command that does the same. Left and right go through them, `y` copies."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "left",
            "cycle(-1)",
            _("Previous"),
            id="creates.previous",
            tooltip=_("The thing before"),
            show=False,
        ),
        Binding(
            "right",
            "cycle(1)",
            _("Following"),
            id="creates.following",
            tooltip=_("The thing after"),
            key_display="←→",
        ),
        Binding("y", "copy", _("Copy command"), id="command.copy", tooltip=_("Copy this command")),
        Binding(
            "Y",
            "copy_all",
            _("Copy all"),
            id="command.copy_all",
            tooltip=_("Copy the commands of all things"),
            show=False,
        ),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._resources: tuple[Resource, ...] = ()
        self._index = 0
        self._empty_text = ""

    def show_resources(self, resources: Sequence[Resource], empty_text: str) -> None:
        """These; `nothing` is said when there are none."""
        self._resources, self._empty_text = tuple(resources), empty_text
        self._index = min(self._index, max(0, len(resources) - 1))
        self._show()

    def _show(self) -> None:
        if not self._resources:
            self.show(self._empty_text, _("Creates nothing"))
            return
        count, thing = len(self._resources), self._resources[self._index]
        head = ngettext("Creates {n} thing", "Creates {n} things", count).format(n=count)
        place = f" {self._index + 1}/{count}" if count > 1 else ""
        self.show(thing.command, f"{head} ·{place} {thing.kind.replace('_', ' ')} {thing.name}")

    def action_cycle(self, by: int) -> None:
        """The next or previous thing, round and round."""
        if self._resources:
            self._index = (self._index + by) % len(self._resources)
            self._show()

    def action_copy_all(self) -> None:
        """All commands, one a line."""
        self.app.copy_to_clipboard("\n".join(r.command for r in self._resources if r.command))
        self._update_border_title("✓ " + _("all copied"))
        self.set_timer(2, self._update_border_title)
