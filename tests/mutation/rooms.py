"""What is mutated, and which quick tests are held against it: data only."""

from dataclasses import dataclass

# The modules that flattening is made of: what each part of a document becomes, and how.
_FLATTEN = (
    *("flatten", "resources", "elements", "shapes", "plain", "careful", "columns"),
    *("portfolios", "venues", "amounts", "moments", "texts", "money", "notes", "counting"),
)


@dataclass(frozen=True, slots=True)
class Room:
    """Some modules and the tests that must notice a change in them, as paths from the checkout.

    Tests run in the mutated process, quickest first; `without` are those, by a part of their name,
    that start another program, where a mutant cannot be known, or that wait for seconds. `slow` are
    those that only a survivor of all others is held against.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()


ROOMS = {
    "edge": Room(
        ("pipelines/edge/*.py",),
        ("tests/edge",),
        ("bomb_does_not_fill",),
        ("dripping", "silent", "queue_never_ages", "large"),
    ),
    "landing": Room(
        ("pipelines/landing.py", "pipelines/proved.py"),
        (
            "tests/pipelines/test_pipelines_kept_facts.py",
            "tests/pipelines/test_pipelines_proved.py",
            "tests/pipelines/test_pipelines_landing.py",
            "tests/pipelines/test_pipelines_lake.py",
        ),
    ),
    "snapshots": Room(
        ("pipelines/snapshots.py",),
        (
            "tests/pipelines/test_pipelines_kept_facts.py",
            "tests/pipelines/test_pipelines_landing.py",
            "tests/pipelines/test_pipelines_guards.py",
            "tests/pipelines/test_pipelines_lake.py",
        ),
    ),
    "flatten": Room(
        tuple(f"pipelines/{name}.py" for name in _FLATTEN),
        (
            "tests/pipelines/test_pipelines_noted_facts.py",
            "tests/pipelines/test_pipelines_flat_facts.py",
            "tests/pipelines/test_pipelines_counted_facts.py",
            "tests/pipelines/test_pipelines_texts.py",
            "tests/pipelines/test_pipelines_hostile.py",
            "tests/pipelines/test_pipelines_lake.py",
            "tests/pipelines/test_pipelines_laws.py",
        ),
        slow=("test_pipelines_laws",),
    ),
    "database": Room(
        ("warehouse/database.py", "warehouse/draft.py"),
        ("tests/warehouse/test_database_notes.py", "tests/warehouse/test_database.py"),
        slow=("every_date_answers", "reader_keeps_what", "damage_anywhere"),
    ),
}
