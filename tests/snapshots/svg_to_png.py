"""Converts Textual's SVG screenshots to PNG with an installed font."""

from __future__ import annotations

import re

_CELL, _LINE = 12.2, 24.4
_TEXT = re.compile(r'<text class="([^"]+)" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*[\u2801-\u28ff][^<]*)</text>')
_BITS = tuple((bit, n // 4, n % 4) for n, bit in enumerate((1, 2, 4, 64, 8, 16, 32, 128)))


def to_png(svg: str, path: str, scale: float = 1.0) -> None:
    """Writes `svg` as a PNG.

    cairosvg knows neither web fonts nor textLength, so the font becomes DejaVu Sans Mono in the size at which
    its cells (0.602 em) are as wide as Textual's (12.2 units); it has no braille, so the dots are drawn.
    """
    import cairosvg

    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = svg.replace("font-family: Fira Code", "font-family: DejaVu Sans Mono")
    svg = svg.replace("font-size: 20px", "font-size: 20.265px")
    cairosvg.svg2png(_TEXT.sub(_draw_braille, svg).encode(), write_to=path, scale=scale)


def _draw_braille(match: re.Match[str]) -> str:
    style, left, base = match[1], float(match[2]), float(match[3])
    circles = []
    for column, char in enumerate(match[4].replace("&#160;", " ")):
        bits = ord(char) - 0x2800 if 0x2800 <= ord(char) <= 0x28FF else 0
        for bit, x, y in _BITS:
            if bits & bit:
                centre = left + (column + 0.25 + 0.5 * x) * _CELL, base - 18.5 + (0.125 + 0.25 * y) * _LINE
                circles.append(f'<circle class="{style}" cx="{centre[0]:.1f}" cy="{centre[1]:.1f}" r="2"/>')
    rest = re.sub(r"[\u2800-\u28ff]", "&#160;", match[4])
    return match[0].replace(match[4], rest) + "".join(circles)
