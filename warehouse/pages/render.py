"""The pages as HTML, with the style and the formats of the morning report."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment

from warehouse.pages.tables import FOUND, PageColumn
from warehouse.report import charts, render
from warehouse.report.figures import Record

_HERE = Path(__file__).parent
STYLE, _STYLE_POLICY = render.style_of(
    Path(render.__file__).parent / "page.css", _HERE / "pages.css"
)
POLICY = f"{_STYLE_POLICY}; form-action 'self'; frame-ancestors 'none'"
"""The policy for every response. It allows only our style, and no script, image or frame."""


def page(template: str, program: str, **values: Any) -> bytes:
    """Render a page."""
    found = _environment().get_template(f"{template}.html.jinja")
    return found.render(style=STYLE, program=program, **values).encode()


def address(target: str, parameters: Mapping[str, object]) -> str:
    """Return the address of a page. Values that are not set are left out."""
    given = {name: _text(value) for name, value in parameters.items() if value is not None}
    return f"/{target}" + (f"?{urlencode(given)}" if given else "")


def link(row: Record, column: PageColumn, texts: Mapping[str, str]) -> str:
    """Return the address to which a cell links, or "" if it does not link.

    The link keeps the date of the book, which is in the `texts` of the request.
    """
    target, parameters = column.target, column.parameters
    if target == "{kind}":
        target, parameters = FOUND[row["kind"]]
    values = {name: row[name] for name in parameters}
    if not target or None in values.values():
        return ""
    return address(target, {**values, "as_of": None if "history" in target else texts.get("as_of")})


def line(rows: list[Record], key: str) -> Any:
    """Draw the amounts of a table with one row for each night. Return "" if there are none."""
    amounts = [{"asset_id": "the value", **row, "total": row[key]} for row in rows]
    known = [row for row in amounts if row["total"] is not None]
    days = [row["snapshot_date"] for row in rows]
    return charts.amount_line(known, days) if known else ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def _environment() -> Environment:
    environment = render.environment(_HERE / "templates")
    environment.globals |= {"address": address, "link": link, "line": line}
    return environment
