"""Modal lists of values for a field: fixed options, or resources read from the cloud when the list opens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.gcp.suggestions import Suggestion
from grpo_wizard.tui.style.i18n import _

LoadSuggestions = Callable[[], Awaitable[Sequence[Suggestion]]]


class OptionPicker(ModalScreen[str | None]):
    """Returns the chosen value, or None to keep the current one."""

    DEFAULT_CSS = """
    OptionPicker { align: center middle; background: $background 60%; }
    OptionPicker > Vertical { width: 72; max-width: 100%; height: auto; max-height: 90%; border: round $border; background: $surface;
                         border-title-color: $primary; }
    OptionPicker OptionList > .option-list--option-highlighted { background: $panel; background-tint: $primary 32%;
                         color: $foreground; text-style: bold; }
    OptionPicker OptionList { height: auto; max-height: 18; border: none; background: $surface; }
    OptionPicker Static { height: auto; padding: 0 1; color: $muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", _("Back"), id="options.back", tooltip=_("Keep the current value"))
    ]

    def __init__(self, title: str, options: Sequence[Suggestion], value: str) -> None:
        super().__init__()
        self._title, self._options, self._value = title, tuple(options), value

    def compose(self) -> ComposeResult:
        """Yield the list in a box."""
        with Vertical() as box:
            box.border_title = Content(f" {self._title} ")
            yield from self._compose_list()

    def _compose_list(self) -> ComposeResult:
        yield self._list()

    def _list(self) -> OptionList:
        values = [one.value for one in self._options]
        widest = max(map(cell_len, values), default=0)
        options = OptionList(*(Option(Content(self._line(one, widest))) for one in self._options))
        if self._value in values:
            options.highlighted = values.index(self._value)
        return options

    def _line(self, one: Suggestion, width: int) -> str:
        mark = "(•) " if one.value == self._value else "( ) "
        title = f"{' ' * (width - cell_len(one.value))}   {one.title}" if one.title else ""
        return mark + one.value + title

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Close with the chosen value."""
        self.dismiss(self._options[event.option_index].value)


class CloudPicker(OptionPicker):
    """A list of existing resources; shows when it is loading, when there are none, and why loading failed."""

    DEFAULT_CSS = ""

    def __init__(self, title: str, load: LoadSuggestions, value: str) -> None:
        super().__init__(title, (), value)
        self._load = load

    def _compose_list(self) -> ComposeResult:
        yield Static(_("Reading cloud resources…"), markup=False)

    def on_mount(self) -> None:
        """Start loading."""
        self._fill()

    @work(exit_on_error=False)
    async def _fill(self) -> None:
        status = self.query_one(Static)
        try:
            self._options = tuple(await self._load())
        except WizardError as error:
            status.update(Content("\n".join(filter(None, (f"✗ {error.title}", error.detail, error.fix)))))
            return
        if not self._options:
            status.update(_("Nothing was found. Type a name or press Esc."))
            return
        options = self._list()
        await self.query_one(Vertical).mount(options)
        await status.remove()
        options.focus()
