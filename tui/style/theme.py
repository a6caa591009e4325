"""The dark and the light theme, in a palette that colour-blind people can distinguish (Okabe and Ito, 2008).

Blue means progress; orange and vermilion call for attention. Textual implements NO_COLOR by converting to greyscale;
every status stays readable because it also has a glyph and a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from rich.segment import Segment
from textual.app import App
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import terminal_supports_unicode, to_ascii

ORANGE, SKY, YELLOW, PURPLE = "#E69F00", "#56B4E9", "#F0E442", "#CC79A7"
# Variants of the palette's vermilion, green, orange and blue: the originals miss a contrast of 4.5:1 on a background.
_CORAL, _MINT, _RUST, _PINE, _OCHRE, _BLUE = "#FF8247", "#2FC79A", "#AA4500", "#006B4B", "#855300", "#00649C"


def _variables(background: str, muted: str, line: str, key: str, series: tuple[str, ...]) -> dict[str, str]:
    return {
        "muted": muted,
        "line": line,
        **{f"series-{n}": colour for n, colour in enumerate(series, 1)},
        "rehearsal": YELLOW,
        "on-rehearsal": "#101418",
        "footer-key-foreground": key,
        "border": key,
        "border-blurred": line,
        "block-cursor-text-style": "bold",
        **dict.fromkeys(("scrollbar", "scrollbar-hover"), line),
        "scrollbar-active": muted,
        **dict.fromkeys(("scrollbar-background", "scrollbar-background-hover"), background),
        **dict.fromkeys(("scrollbar-background-active", "scrollbar-corner-color"), background),
        "input-selection-background": f"{key} 30%",
    }


DARK = Theme(
    name="wizard-dark",
    dark=True,
    primary=SKY,
    secondary="#9AB7CC",
    accent=ORANGE,
    warning=ORANGE,
    error=_CORAL,
    success=_MINT,
    foreground="#E4E7EA",
    background="#101418",
    surface="#171D23",
    panel="#202830",
    variables=_variables("#101418", "#8A97A3", "#36424D", SKY, (SKY, ORANGE, PURPLE, YELLOW)),
)
LIGHT = Theme(
    name="wizard-light",
    dark=False,
    primary=_BLUE,
    secondary="#3F5F78",
    accent=_OCHRE,
    warning=_OCHRE,
    error=_RUST,
    success=_PINE,
    foreground="#15191D",
    background="#FBFBFA",
    surface="#F2F3F3",
    panel="#E8EBED",
    variables=_variables("#FBFBFA", "#5A6671", "#B9C2CA", _BLUE, (_BLUE, _RUST, "#9A3F73", "#6B6300")),
)


class AsciiFilter(LineFilter):
    """Converts everything to ASCII of the same width just before painting, including borders and scroll bars."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Convert the segments' text to ASCII."""
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]


ResultT = TypeVar("ResultT")


class ThemedApp(App[ResultT]):
    """Base class of the apps: theme, breakpoints, ASCII mode. `ascii_only` overrides the terminal's capability."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+p",
            "command_palette",
            _("Commands"),
            show=False,
            id="app.commands",
            tooltip=_("Search all commands"),
        ),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 - Textual declares it on the instance
    VERTICAL_BREAKPOINTS = [(0, "-short"), (34, "-tall")]  # noqa: RUF012

    def __init__(self, *, ascii_only: bool | None = None, light: bool = False) -> None:
        self.ascii_only = not terminal_supports_unicode() if ascii_only is None else ascii_only
        self._ascii_filter = AsciiFilter(enabled=self.ascii_only)
        super().__init__()
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = (LIGHT if light else DARK).name

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Add the ASCII filter on a terminal that needs it."""
        filters = super().get_line_filters()
        return [*filters, self._ascii_filter] if self.ascii_only else filters

    def set_terminal_title(self, text: str) -> None:
        """Set the terminal's title (OSC 2), without control characters, which would end the sequence."""
        driver = self._driver
        if driver is not None and not self.is_headless:
            driver.write("\x1b]2;" + "".join(c for c in text if c.isprintable()) + "\x07")


def is_ascii(app: App[object]) -> bool:
    """Whether `app` is in ASCII mode, for widgets that draw better ASCII than the filter would produce."""
    return isinstance(app, ThemedApp) and app.ascii_only
