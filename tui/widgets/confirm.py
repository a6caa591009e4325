"""The confirmation of actions that cannot be undone: the deployment's name has to be typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Static

from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import status_icon


class ConfirmDialog(ModalScreen[bool]):
    """Returns True if `name` was typed and confirmed with the button or Enter, and False on Esc."""

    DEFAULT_CSS = """
    ConfirmDialog { align: center middle; background: $background 70%; }
    ConfirmDialog > VerticalScroll {
        width: 76; max-width: 100%; height: auto; max-height: 100%; padding: 1 2; background: $surface;
        border: round $warning; border-title-color: $warning; border-title-style: bold;
    }
    ConfirmDialog Static { height: auto; margin-bottom: 1; }
    ConfirmDialog #confirm-refusal { color: $error; margin-bottom: 0; }
    ConfirmDialog Input { border: tall $border-blurred; }
    ConfirmDialog Horizontal { height: auto; margin-top: 1; align-horizontal: right; }
    ConfirmDialog Button { margin-left: 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape",
            "dismiss(False)",
            _("Back"),
            id="confirm.back",
            tooltip=_("Go back without changing anything"),
        )
    ]

    def __init__(self, title: str, lines: Sequence[tuple[str, str]], name: str, verb: str) -> None:
        """`lines`: (status icon key or empty, text); `verb`: the button's label."""
        super().__init__()
        self._title, self._lines, self._expected_name, self._verb = title, lines, name, verb

    def compose(self) -> ComposeResult:
        """Yield the lines, the prompt and the buttons."""
        with VerticalScroll() as box:
            box.border_title = Content(self._title)
            for key, line in self._lines:
                yield Static(self._row(key, line), markup=False)
            yield Label(_("Type {name} to confirm:").format(name=self._expected_name), markup=False)
            yield Input(compact=False)
            yield Static("", id="confirm-refusal", markup=False)
            with Horizontal():
                yield Button(_("Back"), id="back")
                yield Button(self._verb, id="do", variant="warning", disabled=True)

    def on_mount(self) -> None:
        """Focus the input."""
        self.query_one(Input).focus()

    def _row(self, key: str, line: str) -> Text:
        text = Text()
        if key:
            text.append(f"{status_icon(key)}  ", self.app.theme_variables[status_icon(key).colour])
        return text.append(line)

    @property
    def _name_matches(self) -> bool:
        return self.query_one(Input).value.strip() == self._expected_name

    @on(Input.Changed)
    def _typed(self) -> None:
        self.query_one("#do", Button).disabled = not self._name_matches
        self._show_error("")

    @on(Input.Submitted)
    @on(Button.Pressed, "#do")
    def _confirm(self) -> None:
        if self._name_matches:
            self.dismiss(True)
        else:
            self._show_error(_("The name does not match {name}.").format(name=self._expected_name))

    def _show_error(self, message: str) -> None:
        self.query_one(Input).set_class(bool(message), "-invalid")
        self.query_one("#confirm-refusal", Static).update(
            f"{status_icon('block').glyph} {message}" if message else ""
        )

    @on(Button.Pressed, "#back")
    def _back(self) -> None:
        self.dismiss(False)
