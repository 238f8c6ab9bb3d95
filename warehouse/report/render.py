"""Rendering a report with Jinja, as an HTML page or as Markdown.

`book.jinja` defines the sections of a report. It builds the sections from blocks for one format, in
`blocks.html.jinja` or `blocks.md.jinja`, and extends `page.html.jinja` or `page.md.jinja`. All
templates escape every value. The page has no script and loads nothing, and its policy forbids both,
so even an unescaped value could not run, load or send anything.
"""

import base64
import hashlib
import re
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from warehouse.contract.model import count_of
from warehouse.report import charts, columns, formats
from warehouse.report.columns import Column
from warehouse.report.data import ReportData
from warehouse.report.figures import Record, split_by_asset

PROGRAM = "nightbook"
_HERE = Path(__file__).parent
_MARKUP = "\\`*_{}[]()<>#+!|~&"
_BAR = "\\|"
_SUMMARY = re.compile("<summary>.*?</summary>", re.DOTALL)
_ADDRESS = re.compile(r"://|www\.|@", re.IGNORECASE)
_BETWEEN_BLOCKS = re.compile(r"\s*\n\s*\n\s*")
# Functions that the templates of reports may call.
_FUNCTIONS = (
    split_by_asset,
    formats.asset,
    formats.brief,
    formats.day,
    formats.delta,
    formats.digits,
    formats.duration,
    formats.join,
    formats.light,
    formats.moment,
    formats.name,
    formats.printable,
    formats.size,
    formats.whole_asset,
    formats.whole_name,
    charts.account_bars,
    charts.age_columns,
    charts.age_mark,
    charts.amount_line,
    charts.calendar,
    charts.change_bars,
    charts.owner_bars,
    charts.share_bars,
    charts.state_mark,
)


def render_page(data: ReportData, program_version: str, command: str = PROGRAM) -> str:
    """Render a report as HTML. The commands on the page begin with `command`."""
    return _render(
        data,
        "html",
        command=command,
        **_load_style("page.css"),
        rendered_at=f"{data.now.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        program_version=program_version,
    )


def render_statement(**values: Any) -> str:
    """Render the statement of a portfolio as HTML. `statement.html.jinja` lists the values."""
    template = environment().get_template("statement.html.jinja")
    return template.render(**values, **_load_style("page.css", "statement.css"))


def style_of(*files: Path) -> tuple[Markup, str]:
    """Return our style sheets as one, and the policy that allows only this style on a page."""
    style = Markup("".join(file.read_text("utf-8") for file in files))  # noqa: S704 - our own files
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return style, f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'"


def render_markdown(data: ReportData) -> str:
    """Render a report as Markdown, with each table's first rows and without charts."""
    return _BETWEEN_BLOCKS.sub("\n\n", _render(data, "md", command=PROGRAM)).strip() + "\n"


def escape_markdown(text: str) -> str:
    r"""Return Markdown that displays exactly this text. An address becomes code instead of a link.

    >>> print(escape_markdown("a|b [c](d)"), escape_markdown("www.x"))
    a\|b \[c\]\(d\) ` www.x `
    """
    if _ADDRESS.search(text):
        fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
        return f"{fence} {text.replace('|', _BAR)} {fence}"
    return "".join(f"\\{char}" if char in _MARKUP else char for char in text)


def _load_style(*names: str) -> dict[str, str]:
    """Return the style of a page, and the policy that allows nothing but this style."""
    style, policy = style_of(*(_HERE / name for name in names))
    return {"style": style, "policy": f"{policy}; form-action 'none'"}


def _render(data: ReportData, format_: str, **values: Any) -> str:
    return environment().get_template("book.jinja").render(
        data.values,
        layout=f"page.{format_}.jinja",
        blocks=f"blocks.{format_}.jinja",
        day_of_report=data.day,
        **values,
    )  # fmt: skip


@cache
def environment(folder: Path = _HERE / "templates") -> Environment:
    """Return the templates in a folder, with the functions that format and draw values."""
    templates = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,
    )
    templates.filters["markdown"] = _markdown
    templates.filters["thousands"] = lambda number: _with_gaps(f"{number:,}")
    templates.globals |= {function.__name__: function for function in _FUNCTIONS}
    templates.globals |= {
        "count_of": lambda number, noun: _with_gaps(count_of(number, noun)),
        "AGES": charts.AGES,
        "MARKS": charts.MARKS,
        "NUMBERS": formats.NUMBERS,
        "cell": _cell,
        "columns": columns,
    }
    return templates


def _with_gaps(count: str) -> str:
    """Separate thousands by narrow gaps, as in the amounts of the page."""
    return count.replace(",", "\u202f")


def _cell(row: Record, column: Column) -> Markup:
    """Format a table cell by calling the column's function with the row's values for its keys."""
    _, show, *keys = column
    return escape(show(*(row[key] for key in keys)))


def _markdown(value: object) -> Markup:
    """Convert the text of an HTML fragment to Markdown."""
    # In HTML, people can expand a rounded amount to the exact amount. Markdown shows only the exact
    # amount.
    text = Markup(_SUMMARY.sub("", escape(value))).striptags()  # noqa: S704 - tags are removed
    return Markup(escape_markdown(text))  # noqa: S704 - escaped as Markdown
