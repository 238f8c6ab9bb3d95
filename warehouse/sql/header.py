"""How a file of SQL is read: its words on top, and the form that it may share with others.

A file opens with comment lines: what it is, an empty line, notes if any, then `name: meaning` for
every column or parameter, `returns:` for macros, `severity:` for checks, and `example:`, a query to
copy. `form: history by venue_id` stands where the columns of `forms/history.sql` stand; that form
is then told for each `venue_id` of the file's own query. A form marks with `$` what it is given:
`$query` is the query, `$key` what follows `by`, `$own` the query's other columns. `$packed` and
`$compared` are those of them that stand before `form:`, as fields of a struct and as differences
between two; `$named` are those after it, and `$latest` what they were on the last date, each with a
comma before it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from textwrap import indent

_ENTRY = re.compile(r"([a-z][a-z0-9_]*): (.*)")
_FORM = re.compile(r"([a-z_]+) by ([a-z0-9_, ]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlFile:
    """One SQL file: its name, meaning, further notes, what it names, an example, and its SQL."""

    name: str
    meaning: str
    notes: str
    entries: Mapping[str, str]
    example: str
    sql: str

    @property
    def comment(self) -> str:
        """Meaning and notes in one, as the database keeps them."""
        return f"{self.meaning} {self.notes}".strip()


def read(path: Path) -> SqlFile:
    """Read one file; raise `ValueError` where its meaning or its example is missing."""
    sql_file = _parse(path)
    if not sql_file.meaning or not sql_file.example:
        raise ValueError(f"{path.name} opens without its meaning or without `-- example:`")
    return sql_file


def _parse(path: Path) -> SqlFile:
    lines = path.read_text("utf-8").splitlines()
    count = next((n for n, line in enumerate(lines) if not line.startswith("--")), len(lines))
    head = [line[2:].removeprefix(" ") for line in lines[:count]]
    entries: list[tuple[str, str]] = []
    prose: list[str] = []
    for line in head:
        entry = _ENTRY.fullmatch(line)
        if entry:
            entries.append((entry[1], entry[2]))
        elif line.startswith("    ") and entries:
            name, text = entries.pop()
            entries.append((name, f"{text} {line.strip()}"))
        else:
            prose.append(line)
    meaning, _, notes = "\n".join(prose).strip().partition("\n\n")
    # The last example is the query to copy; one before it is a column of that name.
    examples = [index for index, (name, _) in enumerate(entries) if name == "example"]
    example = entries.pop(examples[-1])[1] if examples else ""
    return SqlFile(
        name=path.stem.lstrip("0123456789_"),
        meaning=" ".join(meaning.split()),
        notes=" ".join(notes.split()),
        entries=dict(entries),
        example=example,
        sql="\n".join(lines[count:]).strip(),
    )


def fill_form(sql_file: SqlFile, forms: Path) -> SqlFile:
    """Return a file with its form filled in, or the file itself where it has no form.

    The columns are the file's, with those of the form where `form:` stands; the notes of the form
    come first. Raises `ValueError` where the form is not one of the folder `forms`, or where the
    key is not among the columns.
    """
    if "form" not in sql_file.entries:
        return sql_file
    asked = _FORM.fullmatch(sql_file.entries["form"])
    path = forms / f"{asked[1] if asked else ''}.sql"
    key = asked[2].split(", ") if asked else []
    if not path.is_file() or not set(key) <= set(sql_file.entries):
        raise ValueError(
            f"{sql_file.name}.sql wants the form `{sql_file.entries['form']}`; it is to be the "
            f"name of a file in {forms.name}/, ` by `, and columns that are told above"
        )
    form = _parse(path)
    others = [name for name in sql_file.entries if name not in (*key, "snapshot_date")]
    after = others.index("form")
    return replace(
        sql_file,
        notes=f"{form.notes} {sql_file.notes}".strip(),
        entries=_together(sql_file.entries, form.entries),
        sql=_fill(form.sql, sql_file.sql, key, others[:after], others[after + 1 :]),
    )


def _together(entries: Mapping[str, str], of_form: Mapping[str, str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for name, text in entries.items():
        columns |= of_form if name == "form" else {name: text}
    return columns


def _fill(
    form: str, query: str, key: Sequence[str], state: Sequence[str], named: Sequence[str]
) -> str:
    # A line of a form that begins with `$name` is repeated for each column, one line each; within a
    # line the columns follow each other. So a form stays a query that can be read.
    lists = {
        "key": key,
        "own": [*state, *named],
        "packed": [f"{name} := {name}" for name in state],
        "compared": [
            f"internal.change_words('{name}', before.{name}, state.{name})" for name in state
        ],
        "named": ["", *named],
        "latest": ["", *(f"arg_max({name}, snapshot_date) as {name}" for name in named)],
    }
    lines = []
    for line in form.splitlines():
        bare = line.lstrip()
        between = ",\n" if bare.startswith("$") else ", "
        columns = {name: between.join(names) for name, names in lists.items()}
        text = Template(bare).substitute(columns, query=query)
        lines.append(indent(text, line[: len(line) - len(bare)]))
    return "\n".join(lines)
