"""A parser for SQL files: their headers, and the SQL templates (forms) that files can share.

A file begins with comment lines: the meaning, an empty line, optional notes, then `name: meaning`
for each column or parameter, `returns:` for macros, `severity:` for checks, and `example:`, a query
to copy.

`form: history by venue_id` inserts the columns of `forms/history.sql`. The form is then applied to
the file's own query, with the key `venue_id`. A form has these placeholders:

- `$query`: the file's own query.
- `$key`: the columns after `by`.
- `$own`: the query's other columns.
- `$packed`, `$compared`: the columns before `form:`, as fields of a struct, and as differences
  between two structs.
- `$named`, `$latest`: the columns after `form:`, and their values on the last date. Each has a
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
    """One SQL file: its name, meaning, notes, entries, example and SQL.

    `entries` maps each column or parameter name to its meaning.
    """

    name: str
    meaning: str
    notes: str
    entries: Mapping[str, str]
    example: str
    sql: str

    @property
    def comment(self) -> str:
        """The meaning and the notes in one string, as in the database."""
        return f"{self.meaning} {self.notes}".strip()


def read(path: Path) -> SqlFile:
    """Read one file. Raises `ValueError` if its meaning or its example is missing."""
    sql_file = _parse(path)
    if not sql_file.meaning or not sql_file.example:
        raise ValueError(f"the header of {path.name} needs a description and an `-- example:` line")
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
    # The last `example` entry is the query for people to copy. An earlier `example` entry describes
    # a column named `example`.
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
    """Return the file with its SQL template (form) filled in, or unchanged if it has no form.

    The form's columns replace the entry `form:`, and its notes precede the file's notes. Raises
    `ValueError` if the form is not in the folder `forms`, or the key is not a column.
    """
    if "form" not in sql_file.entries:
        return sql_file
    match = _FORM.fullmatch(sql_file.entries["form"])
    path = forms / f"{match[1] if match else ''}.sql"
    key = match[2].split(", ") if match else []
    if not path.is_file() or not set(key) <= set(sql_file.entries):
        raise ValueError(
            f"{sql_file.name}.sql has the form `{sql_file.entries['form']}`. Expected the name of "
            f"a file in {forms.name}/, ` by `, and columns from the header"
        )
    form = _parse(path)
    others = [name for name in sql_file.entries if name not in (*key, "snapshot_date")]
    after = others.index("form")
    return replace(
        sql_file,
        notes=f"{form.notes} {sql_file.notes}".strip(),
        entries=_merge_entries(sql_file.entries, form.entries),
        sql=_fill(form.sql, sql_file.sql, key, others[:after], others[after + 1 :]),
    )


def _merge_entries(entries: Mapping[str, str], form_entries: Mapping[str, str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for name, text in entries.items():
        columns |= form_entries if name == "form" else {name: text}
    return columns


def _fill(
    form: str, query: str, key: Sequence[str], state: Sequence[str], named: Sequence[str]
) -> str:
    # If a line of the template begins with a placeholder, write each column on its own line.
    # Otherwise, write all columns on one line. This keeps the generated query readable.
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
