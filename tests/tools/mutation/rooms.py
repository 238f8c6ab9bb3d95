"""The modules to mutate, and the quick tests that must notice the mutants: data only."""

from dataclasses import dataclass

# The modules of flattening: they decide how each part of a document is converted.
_FLATTEN = (
    "pipelines/flatten/*.py",
    "pipelines/records/*.py",
    "pipelines/flatten/control_totals/reference.py",
)


@dataclass(frozen=True, slots=True)
class Room:
    """Some modules and the tests that must notice a change in them, as paths from the checkout.

    Tests run in the mutated process, quickest first. `without` has parts of the names of tests that
    are left out, because they start a different program, in which the mutant is not active, or wait
    for seconds. `slow` has parts of the names of tests that run only on the survivors of all
    others.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()


ROOMS = {
    "edge": Room(
        ("pipelines/edge/*.py", "pipelines/edge/*/*.py"),
        ("tests/pipelines/edge",),
        ("bomb_does_not_fill",),
        ("dripping", "silent", "queue_never_ages", "large"),
    ),
    "landing": Room(
        (
            "pipelines/landing/zone.py",
            "pipelines/landing/manifest.py",
            "pipelines/landing/night_folders.py",
        ),
        (
            "tests/pipelines/landing/test_manifest.py",
            "tests/pipelines/landing/test_night_folders.py",
            "tests/pipelines/landing/test_zone.py",
            "tests/pipelines/lake/test_placement.py",
        ),
    ),
    "snapshots": Room(
        ("pipelines/landing/snapshots.py",),
        (
            "tests/pipelines/landing/test_manifest.py",
            "tests/pipelines/landing/test_zone.py",
            "tests/pipelines/lake/test_guards.py",
            "tests/pipelines/lake/test_placement.py",
        ),
    ),
    "flatten": Room(
        _FLATTEN,
        (
            "tests/pipelines/records/test_tolerant_reader.py",
            "tests/pipelines/records/test_fast_reader.py",
            "tests/pipelines/flatten/test_reference.py",
            "tests/pipelines/records/test_amounts.py",
            "tests/pipelines/records/test_tolerant_reader_hostile.py",
            "tests/pipelines/lake/test_placement.py",
            "tests/pipelines/records/test_fast_reader_laws.py",
        ),
        slow=("test_fast_reader_laws",),
    ),
    "database": Room(
        ("warehouse/database/publication.py", "warehouse/database/load.py"),
        (
            "tests/warehouse/database/test_load_record.py",
            "tests/warehouse/database/test_publication.py",
        ),
        slow=("every_date_answers", "reader_keeps_what", "damage_anywhere"),
    ),
}
