"""The morning report as Markdown: for places that show no page of their own, like Dagster's.

Names come from the wire, so every text is escaped: none can end a cell, start a link or markup.
"""

import re
from collections.abc import Iterable, Iterator

from markupsafe import Markup

from warehouse.report.blocks import Section, TableBlock

ROWS = 8
_MARKUP = "\\`*_{}[]()<>#+!|~&"
_BAR = "\\|"
_SHORT = re.compile("<summary>.*?</summary>", re.DOTALL)
_ADDRESS = re.compile(r"://|www\.|@", re.IGNORECASE)


def escape(text: str) -> str:
    r"""Return a text as Markdown that shows just it: an address becomes code, not a link.

    >>> print(escape("a|b [c](d)"), escape("www.x"))
    a\|b \[c\]\(d\) ` www.x `
    """
    if _ADDRESS.search(text):
        fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
        return f"{fence} {text.replace('|', _BAR)} {fence}"
    return "".join(f"\\{char}" if char in _MARKUP else char for char in text)


def markdown(headline: Markup, warnings: Iterable[Markup], sections: Iterable[Section]) -> str:
    """Return the report section by section, with the first rows of each table, no charts."""
    return "\n".join(_lines(headline, warnings, sections))


def _lines(
    headline: Markup, warnings: Iterable[Markup], sections: Iterable[Section]
) -> Iterator[str]:
    yield f"**{_text(headline)}**\n"
    for warning in warnings:
        yield f"{_text(warning)}\n"
    for section in sections:
        yield f"## {escape(section.title)}: {escape(section.figure)}\n"
        for sentence in section.notes:
            yield f"{_text(sentence)}\n"
        for table in section.tables:
            yield from _table(table)


def _table(table: TableBlock) -> Iterator[str]:
    yield f"**{escape(table.title)}**\n"
    yield f"| {' | '.join(escape(column.head) for column in table.columns)} |"
    yield f"|{''.join('---:|' if column.is_number else '---|' for column in table.columns)}"
    for row in table.rows[:ROWS]:
        yield f"| {' | '.join(map(_text, row))} |"
    if len(table.rows) > ROWS or table.more:
        yield "\nMore rows are in the report."
    yield ""


def _text(markup: Markup) -> str:
    # A rounded figure opens to the exact one, which alone is told here.
    return escape(Markup(_SHORT.sub("", markup)).striptags())  # noqa: S704 - tags are dropped
