"""Tests of forms, which contain SQL that several views share."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from warehouse.sql.catalog import views
from warehouse.sql.header import SqlFile, fill_form

FORM = """-- A form.
--
-- Notes of the form.
--
-- total: What it adds.

with told as (
    $query
)

select
    $key,
    $own,
    1 as total
from told
group by $key
"""
WORDS = SqlFile(
    name="things",
    meaning="One row a thing.",
    notes="Notes of the file.",
    entries={"a": "One.", "b": "Two.", "c": "Three.", "form": "plain by a, b", "d": "Four."},
    example="select * from things",
    sql="select\n    1 as a",
)


@pytest.fixture
def forms(tmp_path: Path) -> Path:
    """Create a folder with one form."""
    (tmp_path / "plain.sql").write_text(FORM)
    return tmp_path


def test_a_form_is_filled_with_the_query_and_key_of_a_file(forms: Path) -> None:
    """The filled form contains the query, the key and the other columns of the file.

    A line that begins with a list of columns becomes one line per column. On other lines, the list
    stays on one line.
    """
    assert fill_form(WORDS, forms).sql == (
        "with told as (\n    select\n        1 as a\n)\n\n"
        "select\n    a,\n    b,\n    c,\n    d,\n    1 as total\nfrom told\ngroup by a, b"
    )


def test_the_columns_of_a_form_replace_its_entry(forms: Path) -> None:
    """The columns of the form replace the entry `form`, so that every column has its meaning.

    The notes of the form precede the notes of the file.
    """
    both = fill_form(WORDS, forms)
    assert list(both.entries) == ["a", "b", "c", "total", "d"]
    assert both.comment == "One row a thing. Notes of the form. Notes of the file."


@pytest.mark.parametrize("wanted", ["other by a", "plain", "plain by z", "../plain by a"])
def test_an_invalid_form_entry_is_shown_in_the_error(forms: Path, wanted: str) -> None:
    """If a form cannot be filled, the error shows the invalid entry and the expected one."""
    with pytest.raises(ValueError, match=r"things\.sql has the form `.*`. Expected the name"):
        fill_form(replace(WORDS, entries={**WORDS.entries, "form": wanted}), forms)


def test_a_file_without_a_form_stays_unchanged(forms: Path) -> None:
    """A file without a form stays unchanged, as most views do."""
    alone = replace(WORDS, entries={"a": "One."})
    assert fill_form(alone, forms) == alone


def test_no_view_has_an_unfilled_placeholder() -> None:
    """No view contains an unfilled placeholder of a form."""
    marks = re.compile(r"\$(query|key|own|packed|compared)")
    assert [view.name for view in views() if marks.search(view.sql)] == []
