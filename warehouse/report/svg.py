"""From a matplotlib figure to inline SVG: no style, no script, no name that matplotlib has seen.

Colours are roles (`INK`, `BOOK`, ...): odd colours that matplotlib draws and that become classes
here, so that one drawing is right in light and dark and the page's policy can refuse every inline
style. Words from the wire are put in afterwards, as text nodes: matplotlib would read `$` as
mathematics.
"""

import io
import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

POINT = 1 / 72
WIDTH = 360.0
LETTERS = 10
INK, MUTED, LINE, MAIN, SECOND, THIRD, WARN, BAD = (f"#0{n}0{n}0{n}" for n in range(1, 9))
_CLASSES = {
    INK: "ink",
    MUTED: "muted",
    LINE: "line",
    MAIN: "main",
    SECOND: "second",
    THIRD: "third",
    WARN: "warn",
    BAD: "bad",
}
_KEPT = {
    "stroke-width": "stroke-width",
    "stroke-linecap": "stroke-linecap",
    "stroke-linejoin": "stroke-linejoin",
    "text-anchor": "text-anchor",
    "font-size": "font-size",
}
_NUMBER = re.compile(r"-?[0-9]+\.[0-9]+")
_LABEL = re.compile(r"\{([0-9]+)\}")


def canvas(height: float) -> tuple[Figure, Axes]:
    """An empty drawing, `WIDTH` points wide and this high, measured from its upper left corner."""
    figure = Figure(figsize=(WIDTH * POINT, height * POINT))
    FigureCanvasSVG(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(height, 0)
    axes.set_autoscale_on(False)
    return figure, axes


def write(
    axes: Axes, x: float, y: float, text: str, *, at: str = "left", colour: str = INK
) -> None:
    """Put words at a place; `{0}` stands for the first label given to `svg`."""
    axes.text(
        x,
        y,
        text,
        ha=at,
        va="center_baseline",
        color=colour,
        fontsize=LETTERS,
        parse_math=False,
        clip_on=False,
    )


def svg(figure: Figure, words: str, labels: Sequence[str] = (), *, width: float = WIDTH) -> Markup:
    """The drawing as an SVG element that says itself in `words`; `labels` replace `{0}`, `{1}`."""
    out = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "path.simplify": False}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    root = ET.fromstring(out.getvalue())  # noqa: S314 - our own drawing
    height = root.get("viewBox", "0").rpartition(" ")[2]
    view = _round_coordinates(f"0 0 {width} {height}")
    drawn = ET.Element("svg", {"viewBox": view, "role": "img", "aria-label": words})
    for element in root.iter():
        made = _element(element, labels)
        if made is not None:
            drawn.append(made)
    return Markup(ET.tostring(drawn, encoding="unicode"))  # noqa: S704 - text nodes escaped


def _element(element: ET.Element, labels: Sequence[str]) -> ET.Element | None:
    """A path or a text with only what it needs; groups, clips and definitions go."""
    tag = element.tag.rpartition("}")[2]
    if tag not in {"path", "text"} or not element.get("style"):
        return None
    made = ET.Element(tag, _attributes(element.get("style", "")))
    if not made.get("class"):
        return None
    for key in ("d", "x", "y"):
        if element.get(key):
            made.set(key, _round_coordinates(" ".join(element.get(key, "").split())))
    if tag == "text":
        made.text = _LABEL.sub(lambda found: labels[int(found[1])], element.text or "")
    return made


def _attributes(style: str) -> dict[str, str]:
    given = dict(part.strip().split(": ", 1) for part in style.split(";") if part.strip())
    kept = {_KEPT[key]: value for key, value in given.items() if key in _KEPT}
    if "font" in given:
        kept["font-size"] = given["font"].split("px", maxsplit=1)[0].rpartition(" ")[2]
    classes = [
        f"{prefix}-{_CLASSES[given[key]]}"
        for key, prefix in (("fill", "f"), ("stroke", "s"))
        if given.get(key) in _CLASSES
    ]
    if "s-" not in "".join(classes):
        kept = {key: value for key, value in kept.items() if not key.startswith("stroke")}
    if classes and given.get("fill") == "none":
        classes.append("f-none")
    return kept | {"class": " ".join(classes)}


def _round_coordinates(text: str) -> str:
    return _NUMBER.sub(lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), text)
