"""Each module has tests with its name, or is in the table below."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("assets", "pipelines", "warehouse")
# Modules whose tests have a different name. A command is tested through its promise. A vocabulary,
# or a part of a pipeline, is tested through the module that uses it.
TESTED_IN: dict[str, str] = {
    "tests/assets/commands/test_command_line.py": (
        "assets/cli assets/commands/api assets/commands/tables "
        "assets/console/command assets/console/command_names assets/console/exit_codes "
        "assets/console/parameters assets/commands/dev assets/commands/sandbox"
    ),
    "tests/assets/commands/test_run_stopped.py": "assets/night/landing",
    "tests/assets/commands/test_status.py": (
        "assets/commands/snapshots assets/monitoring/staleness assets/console/errors"
    ),
    "tests/assets/commands/test_nights_dry_run.py": "assets/home/rehearsal",
    "tests/assets/console/test_terminal_progress.py": "assets/nightbook warehouse/progress",
    "tests/assets/graph/test_checks_selections.py": (
        "assets/graph/landing assets/graph/tables assets/night/warehouse"
    ),
    "tests/assets/graph/test_decision.py": "assets/graph/step",
    "tests/assets/graph/test_sensors.py": "assets/monitoring/failures",
    "tests/assets/graph/test_warehouse_pages.py": (
        "assets/graph/reports assets/night/reports assets/night/tables"
    ),
    "tests/assets/commands/test_serve.py": (
        "warehouse/pages/answer warehouse/pages/render warehouse/pages/request "
        "warehouse/pages/tables warehouse/pages/version"
    ),
    "tests/assets/runs/test_web.py": "assets/console/guard",
    "tests/assets/home/test_backup.py": "assets/commands/backup",
    "tests/assets/home/test_writer_lock_gate.py": "assets/runs/instance",
    "tests/assets/monitoring/test_alerts.py": "assets/monitoring/metrics",
    "tests/assets/monitoring/test_switches.py": "assets/home/daemon_state",
    "tests/assets/night/test_steps.py": "assets/night/step",
    "tests/assets/publishing/test_shelf.py": (
        "assets/night/transfers assets/publishing/lost_decisions "
        "assets/publishing/pending_decisions assets/publishing/repair"
    ),
    "tests/lakehouse/test_iceberg.py": "pipelines/lakehouse/iceberg_tables",
    "tests/pipelines/edge/test_errors.py": "pipelines/edge/requests",
    "tests/pipelines/edge/test_retries.py": "pipelines/edge/response/refusal",
    "tests/pipelines/edge/test_wholeness.py": (
        "pipelines/edge/response/hints pipelines/landing/notices"
    ),
    "tests/pipelines/flatten/test_carry_over.py": "pipelines/flatten/listings",
    "tests/pipelines/flatten/test_reference.py": (
        "pipelines/flatten/control_totals/totals pipelines/flatten/landed_records "
        "pipelines/flatten/parts pipelines/flatten/resources pipelines/flatten/venues"
    ),
    "tests/pipelines/lake/test_guards_simulated.py": (
        "pipelines/lake/facts pipelines/lake/measures pipelines/lake/repeated_accounts "
        "pipelines/lake/slices"
    ),
    "tests/pipelines/lake/test_guards.py": (
        "pipelines/lake/decision_rows pipelines/lake/reject_groups"
    ),
    "tests/pipelines/lake/test_placement.py": (
        "pipelines/lake/lake_manifest pipelines/landing/snapshots pipelines/flatten/flatten"
    ),
    "tests/pipelines/maintenance/test_verify.py": (
        "assets/commands/verify pipelines/lake/night_files pipelines/landing/damage "
        "warehouse/storage/digests warehouse/storage/layout"
    ),
    "tests/pipelines/pull/test_recorder.py": "pipelines/pull/recheck",
    "tests/pipelines/records/test_amounts.py": (
        "pipelines/records/json_text pipelines/records/timestamps warehouse/exact"
    ),
    "tests/pipelines/records/test_defects.py": "pipelines/lake/lessons pipelines/landing/reasons",
    "tests/pipelines/records/test_fast_reader_laws.py": (
        "pipelines/flatten/accounts pipelines/flatten/columns pipelines/flatten/portfolios"
    ),
    "tests/pipelines/records/test_tolerant_reader.py": "pipelines/records/notes",
    "tests/pipelines/sandbox/test_world.py": (
        "pipelines/sandbox/world/assets pipelines/sandbox/world/portfolios "
        "pipelines/sandbox/world/venues"
    ),
    "tests/pipelines/lakehouse/test_iceberg_catalog.py": "pipelines/lakehouse/lakehouse",
    "tests/pipelines/lakehouse/test_proof.py": "pipelines/lakehouse/engine_sums",
    "tests/pipelines/lakehouse/test_shelving.py": (
        "pipelines/lakehouse/arrival pipelines/lakehouse/decisions pipelines/lakehouse/errors "
        "pipelines/lakehouse/night_manifest pipelines/lakehouse/object_store "
        "pipelines/lakehouse/shelf_check pipelines/lakehouse/shelf_list "
        "pipelines/lakehouse/transfer"
    ),
    "tests/pipelines/lakehouse/test_spark_tasks.py": "pipelines/maintenance/upgrade",
    "tests/pipelines/test_settings.py": (
        "pipelines/edge/access pipelines/lakehouse/addresses warehouse/storage/home"
    ),
    "tests/system/test_demo.py": "assets/commands/demo",
    "tests/system/test_deployment.py": "assets/commands/install",
    "tests/system/test_file_systems.py": "warehouse/storage/probe",
    "tests/system/test_doors.py": "warehouse/sql/dictionary/dbt_sources",
    "tests/system/test_nightly_reconciliation.py": "assets/commands/reconcile",
    "tests/system/test_nights.py": "assets/publishing/publish",
    "tests/system/test_trace.py": (
        "assets/commands/trace warehouse/query/facts/figures warehouse/query/facts/published_sums"
    ),
    "tests/house/test_architecture.py": "pipelines/lakehouse/entrance",
    "tests/house/test_public_contract.py": (
        "warehouse/contract/book warehouse/contract/lake "
        "warehouse/contract/model warehouse/contract/ops warehouse/contract/reconciliation "
        "warehouse/contract/reference warehouse/contract/states"
    ),
    "tests/warehouse/database/test_combine.py": "warehouse/contract/combination",
    "tests/warehouse/export/test_latest.py": "assets/publishing/latest",
    "tests/warehouse/database/test_part.py": "warehouse/contract/part",
    "tests/warehouse/database/test_load_record.py": (
        "warehouse/database/ddl warehouse/database/new_version"
    ),
    "tests/warehouse/database/test_materialized_views.py": "warehouse/database/materialization",
    "tests/warehouse/database/test_publication.py": "warehouse/storage/parquet",
    "tests/warehouse/export/test_export.py": (
        "assets/commands/export warehouse/export/staged_tables warehouse/query/book"
    ),
    "tests/warehouse/export/test_workbook.py": (
        "warehouse/export/sheets warehouse/export/summary warehouse/export/totals "
        "warehouse/query/group_values warehouse/spreadsheet/writing/cells "
        "warehouse/spreadsheet/writing/format"
    ),
    "tests/warehouse/export/test_workbook_proof.py": "warehouse/spreadsheet/writing/splice",
    "tests/warehouse/query/test_child.py": "warehouse/query/errors",
    "tests/warehouse/query/test_door.py": (
        "assets/commands/query warehouse/query/exact_amount warehouse/query/lookup_keys"
    ),
    "tests/warehouse/query/test_formats.py": "warehouse/query/workbook",
    "tests/warehouse/test_startup.py": "warehouse/query/pandas_blocker",
    "tests/warehouse/reconcile/layouts/test_header.py": "warehouse/reconcile/ledger/titles",
    "tests/warehouse/reconcile/layouts/test_header_suggestions.py": (
        "warehouse/reconcile/ledger/dates"
    ),
    "tests/warehouse/reconcile/layouts/test_read_every_question.py": (
        "warehouse/reconcile/ledger/amount_reader warehouse/reconcile/ledger/days "
        "warehouse/reconcile/ledger/labels warehouse/reconcile/ledger/notes "
        "warehouse/reconcile/ledger/notation warehouse/reconcile/ledger/spellings "
        "warehouse/reconcile/ledger/tabs warehouse/reconcile/ledger/units"
    ),
    "tests/warehouse/reconcile/ledger/test_rows.py": (
        "warehouse/spreadsheet/reading/delimited_text"
    ),
    "tests/warehouse/reconcile/ledger/test_read.py": (
        "warehouse/reconcile/ledger/totals warehouse/reconcile/settings/config "
        "warehouse/spreadsheet/reading/grid "
        "warehouse/spreadsheet/reading/text"
    ),
    "tests/warehouse/reconcile/ledger/test_read_foreign_formats.py": (
        "warehouse/spreadsheet/reading/xml_workbooks"
    ),
    "tests/warehouse/reconcile/ledger/test_read_hostile_files.py": (
        "warehouse/spreadsheet/reading/files warehouse/spreadsheet/reading/openxml "
        "warehouse/spreadsheet/reading/workbook"
    ),
    "tests/warehouse/reconcile/ledger/test_read_printed_files.py": (
        "warehouse/spreadsheet/reading/printed_tables"
    ),
    "tests/warehouse/reconcile/ledger/test_sides.py": "warehouse/reconcile/settings/toml",
    "tests/warehouse/reconcile/test_close.py": (
        "warehouse/reconcile/close/pack warehouse/reconcile/record/archive"
    ),
    "tests/warehouse/reconcile/test_compare.py": (
        "warehouse/reconcile/book warehouse/reconcile/match/classify "
        "warehouse/reconcile/match/inputs warehouse/reconcile/model "
        "warehouse/reconcile/terms"
    ),
    "tests/warehouse/reconcile/test_precision.py": (
        "warehouse/reconcile/match/rounding warehouse/reconcile/settings/layout"
    ),
    "tests/warehouse/reconcile/test_run.py": (
        "warehouse/reconcile/match/breaks warehouse/reconcile/record/annotations "
        "warehouse/reconcile/service warehouse/reconcile/workbook/edits"
    ),
    "tests/warehouse/reconcile/test_views_ops_rows.py": ("warehouse/reconcile/record/tables"),
    "tests/warehouse/reconcile/ledger/test_read_stale_formulas.py": (
        "warehouse/spreadsheet/reading/formulas"
    ),
    "tests/warehouse/reconcile/workbook/test_verify.py": (
        "warehouse/reconcile/workbook/row_comparison warehouse/reconcile/workbook/strays"
    ),
    "tests/warehouse/reconcile/workbook/test_verify_forged_workbooks.py": (
        "warehouse/reconcile/workbook/imprint warehouse/reconcile/workbook/sheet_comparison"
    ),
    "tests/warehouse/reconcile/workbook/test_write.py": (
        "warehouse/reconcile/workbook/content warehouse/reconcile/workbook/sheets "
        "warehouse/reconcile/workbook/sign_off warehouse/reconcile/workbook/summary"
    ),
    "tests/warehouse/reference/test_inbox.py": "warehouse/reference/dropped_file",
    "tests/warehouse/sql/test_catalog_movement.py": "warehouse/reference/transactions",
    "tests/warehouse/reference/test_prices.py": "warehouse/reference/row_rules",
    "tests/warehouse/reference/test_reader.py": "warehouse/reference/child",
    "tests/warehouse/report/test_build.py": (
        "warehouse/query/facts/night_facts warehouse/report/charts "
        "warehouse/report/columns warehouse/report/data warehouse/report/figures "
        "warehouse/report/formats"
    ),
    "tests/warehouse/spreadsheet/test_rows.py": "warehouse/spreadsheet/writing/layout",
    "tests/warehouse/sql/test_catalog.py": "warehouse/sql/files",
}
# Test files that cover several modules. Their names describe the promise.
OF_SEVERAL = {
    "tests/warehouse/test_startup.py": "imports of all commands",
}


def modules() -> list[str]:
    """Return the modules of the three rooms as paths without an extension."""
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    return sorted(
        str(path.relative_to(ROOT).with_suffix("")) for path in paths if path.name != "__init__.py"
    )


def is_test_of(test: str, module: str) -> bool:
    """Return True if a test file has a module's name and is in the folder of its room."""
    folder, _, name = module.rpartition("/")
    room = "/".join(folder.split("/")[:2])
    stem = Path(test).stem
    is_named = stem == f"test_{name}" or stem.startswith(f"test_{name}_")
    return is_named and test.startswith(f"tests/{room}/")


def all_tests() -> list[str]:
    """Return the test files."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))


def test_every_module_has_a_test_file_or_a_table_entry() -> None:
    """A module is in the table only if no test has its name. Every file in the table exists."""
    named = {
        module for module in modules() if any(is_test_of(test, module) for test in all_tests())
    }
    listed = [module for listed in TESTED_IN.values() for module in listed.split()]
    missing = [module for module in modules() if module not in named]
    assert sorted(listed) == missing, "add a test of the module's name, or change TESTED_IN"
    assert {*TESTED_IN, *OF_SEVERAL} <= {*all_tests()}


def test_every_test_file_in_a_room_is_named_after_a_module() -> None:
    """Each test file in a room is named after a module, with or without an aspect."""
    in_rooms = [test for test in all_tests() if test.split("/")[1] in ROOMS]
    strangers = [
        test for test in in_rooms if not any(is_test_of(test, module) for module in modules())
    ]
    assert strangers == sorted(OF_SEVERAL)


@pytest.mark.parametrize(
    ("test", "module", "is_found"),
    [
        ("tests/pipelines/edge/test_clock.py", "pipelines/edge/sending/clock", True),
        ("tests/pipelines/edge/test_clock_skew.py", "pipelines/edge/sending/clock", True),
        ("tests/pipelines/edge/test_clocks.py", "pipelines/edge/sending/clock", False),
        ("tests/pipelines/pull/test_clock.py", "pipelines/edge/sending/clock", False),
    ],
)
def test_a_test_file_matches_a_module_by_room_and_name(
    test: str, module: str, *, is_found: bool
) -> None:
    """A test file belongs to a module only if the room and the whole name match."""
    assert is_test_of(test, module) == is_found
