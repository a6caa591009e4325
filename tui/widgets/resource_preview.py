"""The resources that a step creates, one at a time, with the equivalent command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from grpo_wizard.steps.core.model import Resource
from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.widgets.command_line import CommandLine


class ResourcePreview(CommandLine):
    """A CommandLine for several resources. `y` copies the command shown, `Y` all commands."""

    HELP = _(
        "Shows the resources that this step will create, with the equivalent commands. "
        "Use the left and right arrow keys to select a resource, and press `y` to copy its command."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "left",
            "cycle(-1)",
            _("Previous"),
            id="creates.previous",
            tooltip=_("Show the previous resource"),
            show=False,
        ),
        Binding(
            "right",
            "cycle(1)",
            _("Next"),
            id="creates.following",
            tooltip=_("Show the next resource"),
            key_display="←→",
        ),
        Binding("y", "copy", _("Copy command"), id="command.copy", tooltip=_("Copy this command")),
        Binding(
            "Y",
            "copy_all",
            _("Copy all"),
            id="command.copy_all",
            tooltip=_("Copy the commands of all resources"),
            show=False,
        ),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        self._resources: tuple[Resource, ...] = ()
        self._index = 0
        self._empty_text = ""
        super().__init__(copy_key="^y", id=id)

    @property
    def _can_copy(self) -> bool:
        return bool(self._resources)

    def show_resources(self, resources: Sequence[Resource], empty_text: str) -> None:
        """Show `resources`, or `empty_text` if there are none."""
        self._resources, self._empty_text = tuple(resources), empty_text
        self._index = min(self._index, max(0, len(resources) - 1))
        self._show()

    def _show(self) -> None:
        if not self._resources:
            self.show(self._empty_text, _("Creates no resources"))
            return
        count, resource = len(self._resources), self._resources[self._index]
        head = ngettext("Creates {n} resource", "Creates {n} resources", count).format(n=count)
        position = f" {self._index + 1}/{count}" if count > 1 else ""
        self.show(resource.command, f"{head} ·{position} {resource.kind.replace('_', ' ')} {resource.name}")

    def action_cycle(self, by: int) -> None:
        """Show the next or previous resource; wraps around at the ends."""
        if self._resources:
            self._index = (self._index + by) % len(self._resources)
            self._show()

    def action_copy_all(self) -> None:
        """Copy all commands, one per line."""
        self.app.copy_to_clipboard("\n".join(r.command for r in self._resources if r.command))
        self._update_border_title("✓ " + _("all copied"))
        self.set_timer(2, self._update_border_title)
