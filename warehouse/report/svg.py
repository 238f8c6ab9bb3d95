"""Draw inline SVG: shapes and texts in colours that are classes of the page's own style.

One drawing is right in light and dark, and the page's policy can refuse every inline style.
"""

from collections.abc import Iterable, Sequence

from markupsafe import Markup

WIDTH = 360.0
LETTERS = 10
# A text stands on its baseline; so much below its middle the letters look centred.
_BASELINE = 0.35 * LETTERS
Point = tuple[float, float]


class Drawing:
    """A drawing `WIDTH` wide and so high, measured from its upper left corner.

    Colours are roles that `page.css` knows: ink, muted, line, main, second, third, warn, bad.
    """

    def __init__(self, height: float, width: float = WIDTH) -> None:
        self._view = f"0 0 {_number(width)} {_number(height)}"
        self._elements: list[Markup] = []

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "start", colour: str = "ink"
    ) -> None:
        """Write words around a height; `anchor` is start, middle or end."""
        self._elements.append(
            Markup('<text class="f-{}" font-size="{}" text-anchor="{}" x="{}" y="{}">{}</text>')
            .format(colour, LETTERS, anchor, _number(x), _number(y + _BASELINE), text)
        )  # fmt: skip

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Fill a rectangle; one of negative width lies left of `x`."""
        self.shapes([[(x, y), (x + width, y), (x + width, y + height), (x, y + height)]], colour)

    def shapes(
        self, outlines: Iterable[Sequence[Point]], colour: str, *, is_hollow: bool = False
    ) -> None:
        """Fill closed outlines, or draw only their edges."""
        path = " ".join(f"{_path(outline)} z" for outline in outlines)
        paint = f"f-none s-{colour}" if is_hollow else f"f-{colour}"
        self._path(path, paint, 1.3 if is_hollow else 0)

    def line(self, points: Sequence[Point], colour: str, width: float) -> None:
        """Draw a line from point to point."""
        self._path(_path(points), f"f-none s-{colour}", width)

    def _path(self, path: str, paint: str, stroke: float) -> None:
        width = Markup(' stroke-width="{}"').format(_number(stroke)) if stroke else Markup()
        shape = Markup('<path class="{}"{} stroke-linejoin="round" d="{}"/>')
        self._elements.append(shape.format(paint, width, path))

    def svg(self, label: str) -> Markup:
        """Return the SVG element, which says what it shows in `label`."""
        return Markup('<svg viewBox="{}" role="img" aria-label="{}">{}</svg>').format(
            self._view, label, Markup().join(self._elements)
        )


def _path(points: Iterable[Point]) -> str:
    first, *others = (f"{_number(x)} {_number(y)}" for x, y in points)
    return " L ".join([f"M {first}", *others])


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
