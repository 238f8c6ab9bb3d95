"""The subcommands of `nightbook reconcile`, which compare the book with a ledger."""

import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import click
from click import argument, option

from assets.console.command import CommandGroup, HomeCommand
from assets.console.completion import BREAKS, complete_from
from assets.console.invocation import command_for, program_version, user_name
from assets.console.parameters import Choice, Day, as_of_option, flag, format_option
from assets.console.rows import print_lines, print_rows
from assets.console.terminal import mark
from assets.home.writer_lock import require_home, writing
from assets.nightbook import Nightbook
from assets.publishing import publish
from warehouse.contract.model import count_of, first_lines
from warehouse.contract.reconciliation import RECORD_FOLDERS
from warehouse.query.formats import printable, printable_lines
from warehouse.query.pandas_blocker import leave_pandas_out
from warehouse.reconcile import service
from warehouse.reconcile.close.close import close as close_month
from warehouse.reconcile.close.verify import is_pack, verify_pack
from warehouse.reconcile.model import Break, Result, to_json
from warehouse.reconcile.record.record import Record, damaged_packs
from warehouse.reconcile.record.views import history_lines
from warehouse.reconcile.terms import Ambiguous, choices_of, take_choice

MAX_SHOWN = 12
STEPS = {
    "Set up": ("init", "preview", "setup"),
    "Daily work": ("run", "status", "history", "sign"),
    "Month end": ("close", "verify"),
}
NOTES = """\
`run` and `status` exit with code 3 if there are open breaks.
The guide for finance is warehouse/reconcile/FINANCE.md."""
ROLES = ("preparer", "reviewer", "approver")
BREAK_COLUMNS = (
    *("day", "break_id", "status", "result", "names", "ledger", "snapshot", "difference"),
    *("first_seen", "age_days", "change", "cause", "owner", "root_cause", "comment", "accepted"),
    *("ever_seen", "value", "currency", "price_state"),
)
HISTORY_COLUMNS = (
    *("at", "kind", "who", "status", "result", "ledger", "snapshot", "difference", "owner"),
    *("root_cause", "comment", "field", "value", "words"),
)
PROOF_COLUMNS = ("file", "is_whole", "kind", "words")


MOVEMENTS = flag(
    "--movements",
    "is_movement",
    help="Use the movement proof: an earlier book plus the transactions since then",
)


@click.group(
    cls=CommandGroup,
    sections=STEPS,
    modules={name: "reconcile" for names in STEPS.values() for name in names},
    help='Compare the book with your ledger and track all differences ("breaks").',
    subcommand_metavar="COMMAND [ARGS]...",
    epilog=NOTES,
)
def reconcile_command() -> None:
    """Compare the book with your ledger."""


@click.command(cls=HomeCommand, writes=True)
def init_command(nightbook: Nightbook) -> int:
    """Create recon.toml and a ledger template."""
    created = service.init(nightbook.layout.database, _folder(nightbook))
    print(f"The newest book has {count_of(created.keys, 'position')}. Files written:")
    print_lines(created.files)
    inbox = _folder(nightbook) / "inbox"
    next_command = f"{command_for(nightbook.layout)} reconcile run"
    print(f"Put your ledger (xlsx, ods or csv) into {inbox}, then type: {next_command}")
    return 0


@click.command(cls=HomeCommand, prints_result=True)
@argument("file", type=click.Path(), help="Ledger to read")
def preview_command(nightbook: Nightbook, *, file: str) -> int:
    """Show how a ledger file would be read.

    Also prints the open questions about the file, and the lines that you can add to recon.toml to
    answer them.
    """
    ledger = service.preview(nightbook.layout.database, _folder(nightbook), Path(file))
    print_lines(ledger.lines, "")
    return Ambiguous.exit_code if ledger.question else 0


@click.command(cls=HomeCommand, writes=True)
@argument("file", type=click.Path(), help="Ledger to read")
def setup_command(nightbook: Nightbook, *, file: str) -> int:
    """Answer the open questions about a ledger file.

    Asks one question at a time and writes your answers to recon.toml.
    """
    folder = _folder(nightbook)
    while True:
        ledger = service.preview(nightbook.layout.database, folder, Path(file))
        if not ledger.question:
            break
        print(printable_lines(ledger.question))
        answer = _ask(ledger.answer)
        if not answer:
            print("Nothing more was written. The question above is still open.")
            return Ambiguous.exit_code
        with writing(nightbook, "settling"):
            service.settle(folder, answer)
        print(printable_lines(f"Written to {folder / 'recon.toml'}:\n{answer}"))
    print_lines(ledger.lines, "")
    print("There are no open questions.")
    return 0


@click.command(cls=HomeCommand, writes=True)
@as_of_option()
@option(
    "--restate",
    default="",
    metavar="WHY",
    help="Compare a day of a closed month again, and record this reason",
)
@MOVEMENTS
@option("--since", type=Day(), help="Start a movement proof from the newest book on this date")
def run_command(
    nightbook: Nightbook, *, as_of: date | None, restate: str, is_movement: bool, since: date | None
) -> int:
    """Compare the book with the ledgers in the inbox.

    Writes a workbook with all differences. Exits with code 3 if there are open breaks.
    """
    if since and not is_movement:
        raise click.UsageError("--since needs --movements")
    folder = _folder(nightbook, is_movement=is_movement)
    return compare(nightbook, folder, as_of=as_of, restate=restate, since=since)


def compare(
    nightbook: Nightbook,
    folder: Path,
    *,
    as_of: date | None = None,
    restate: str = "",
    since: date | None = None,
) -> int:
    """Compare the book with the ledgers in the inbox. Return 3 while breaks are open."""
    layout, now = nightbook.layout, nightbook.now()
    leave_pandas_out()
    with writing(nightbook, "reconciling"):
        if Record(folder).option:
            publish.refresh(nightbook)  # This reads new files of transactions.
        publish.catch_up(nightbook)
        summary = service.run(
            layout.database,
            folder,
            as_of=as_of,
            program_version=program_version(),
            now=now,
            by=user_name(),
            restate=restate,
            since=since,
        )
        if summary.run_id:
            publish.refresh(nightbook)
    print(printable_lines(summary.message))
    _print_list([notice.line for notice in summary.notices if summary.run_id], "notice")
    print_lines(summary.files)
    return summary.exit_code


@click.command(cls=HomeCommand, prints_result=True)
@as_of_option()
@format_option()
@MOVEMENTS
def status_command(
    nightbook: Nightbook, *, as_of: date | None, output_format: str | None, is_movement: bool
) -> int:
    """Show the latest result and its open breaks.

    Exits with code 3 if there are open breaks.
    """
    folder = _folder(nightbook, is_movement=is_movement)
    status_of_run = service.status(folder, day=as_of)
    result = status_of_run.run
    damage = damaged_packs(folder)
    if output_format:
        facts = [
            to_json(break_)
            | {"day": result.day, "break_id": break_.id, "names": break_.ordered_names}
            for break_ in result.breaks
        ]
        print_rows(
            output_format, BREAK_COLUMNS, [[row[name] for name in BREAK_COLUMNS] for row in facts]
        )
    else:
        _print_status(status_of_run)
    stream = sys.stderr if output_format else sys.stdout
    print_lines(damage, f"{mark(is_well=False, stream=stream)} ", stream)
    return 1 if damage else result.exit_code


@click.command(cls=HomeCommand, prints_result=True)
@argument(
    "break_id",
    metavar="ID",
    shell_complete=complete_from(BREAKS),
    help="Break ID, from the workbook or from `nightbook reconcile status`",
)
@format_option()
@MOVEMENTS
def history_command(
    nightbook: Nightbook, *, break_id: str, output_format: str | None, is_movement: bool
) -> int:
    """Show the history of one break."""
    entries = service.history(_folder(nightbook, is_movement=is_movement), break_id)
    if output_format:
        rows = [[entry.get(name) for name in HISTORY_COLUMNS] for entry in entries]
        print_rows(output_format, HISTORY_COLUMNS, rows)
        return 0
    print_lines(history_lines(entries), "")
    return 0


@click.command(cls=HomeCommand, writes=True)
@as_of_option()
@option("--role", type=Choice(ROLES), default="preparer", show_default=True, help="Your role")
@option("--who", help="Name of the signer  [default: your user name]")
@option("--comment", default="", help="Comment to store with the signature")
@MOVEMENTS
def sign_command(
    nightbook: Nightbook,
    *,
    as_of: date | None,
    role: str,
    who: str | None,
    comment: str,
    is_movement: bool,
) -> int:
    """Sign a result."""
    now = nightbook.now()
    with writing(nightbook, "signing"):
        signed = service.sign(
            _folder(nightbook, is_movement=is_movement),
            role=role,
            who=who or user_name(),
            comment=comment,
            day=as_of,
            now=now,
            entered_by=user_name(),
        )
        publish.refresh(nightbook)
    signature = signed.description.removeprefix("signed")
    print(printable(f"Signed{signature}: result {signed.digest}"))
    return 0


@click.command(cls=HomeCommand, writes=True)
@argument("month", metavar="YYYY-MM", help="Month to close, for example 2026-11")
@MOVEMENTS
def close_command(nightbook: Nightbook, *, month: str, is_movement: bool) -> int:
    """Lock a month and write its evidence to one file.

    The evidence file is called a pack. You can verify a pack on any machine that has nightbook.
    After you close a month, you must give a reason to reconcile one of its days again.
    """
    layout, now = nightbook.layout, nightbook.now()
    record = Record(_folder(nightbook, is_movement=is_movement))
    with writing(nightbook, "closing"):
        publish.catch_up(nightbook)
        summary = close_month(
            layout.database,
            record.root,
            month,
            who=user_name(),
            now=now,
            program_version=program_version(),
        )
    if not summary.is_new:
        print(printable(f"Nothing changed since {summary.closing.description}"))
        return 0
    print(printable(summary.closing.description))
    _print_list(list(summary.changes), "change")
    _print_list(list(summary.listed), "line")
    print(f"  {summary.pack}\n  {summary.index}")
    print(
        f"From now on, a closed day of {month} is reconciled only if you give a reason (reconcile "
        f"run{record.option} --restate). To verify the pack on any machine that has nightbook:"
    )
    print(f"  nightbook reconcile verify {summary.pack}")
    return 0


@click.command(cls=HomeCommand, needs_home=False, prints_result=True)
@argument("file", type=click.Path(), help="Workbook, or pack of a closed month")
@format_option()
@MOVEMENTS
def verify_command(
    nightbook: Nightbook, *, file: str, output_format: str | None, is_movement: bool
) -> int:
    """Check a workbook or a closed month for changes.

    You can check a pack on any machine, because checking a pack does not need a home.
    """
    if is_pack(Path(file)):
        return _verify_pack(Path(file), output_format)
    require_home(nightbook.layout, "reconcile")
    checked = service.verify(_folder(nightbook, is_movement=is_movement), Path(file))
    signatures = tuple(signature.description for signature in checked.signatures)
    if output_format:
        lines = {"difference": checked.differences, "not compared": checked.uncompared}
        lines["signature"] = signatures
        return _print_proof(output_format, file, lines, is_whole=checked.is_whole)
    if checked.is_whole:
        print(f"{mark(is_well=True)} {checked.message}")
    print_lines(checked.differences, f"{mark(is_well=False)} ")
    print_lines((*checked.uncompared, *signatures))
    return 0 if checked.is_whole else 1


def _ask(proposal: str) -> str:
    """Return the lines that the user accepts or types, or an empty string if the user cancels."""
    print(printable_lines(f"Proposed for recon.toml:\n{proposal}"))
    table = proposal.splitlines()[0]
    lines = len(choices_of(proposal))
    choice = (
        f"a number from 1 to {lines} accepts that option" if lines else "Enter accepts all lines"
    )
    try:
        reply = input(
            f"{choice}, other input replaces all lines (separate them with ;), q stops: "
        ).strip()
    except EOFError:
        return ""
    if reply.casefold() in {"q", "quit"} or (lines and not reply):
        return ""
    if reply in map(str, range(1, lines + 1)):
        return take_choice(proposal, int(reply))
    own = [line.strip() for line in reply.split(";") if line.strip()]
    if not own:
        return proposal
    return "\n".join(own if own[0].startswith("[") else [table, *own])


def _print_status(status_of_run: service.RunStatus) -> None:
    result, closing = status_of_run.run, status_of_run.closing
    counts = ", ".join(
        f"{count:,} {kind.label}" for kind in Result if (count := result.counts.get(kind.value, 0))
    )
    rejected = f", {count_of(result.rejected, 'row')} rejected" if result.rejected else ""
    print(f"{result.day}: {result.extent}: {counts or 'nothing'}{rejected}")
    print(printable(f"  {result.coverage.message}"))
    _print_list(result.unread, "file")
    _print_list([_break(break_) for break_ in result.breaks], "break")
    if result.accepted_by_rule:
        print(f"  {result.accepted_by_rule}")
    print_lines(signature.description for signature in status_of_run.signatures)
    closed = closing.description if closing else ""
    print_lines(filter(None, (status_of_run.void, closed)))


def _break(break_: Break) -> str:
    """Format a break as one line: ID, status, result, location, difference and value."""
    details = f"{break_.result_words}  {break_.place}  {break_.difference_words}"
    line = f"{break_.id}  {break_.status}  {details}"
    return f"{line}  {break_.value_words}" if break_.currency else line


def _print_list(lines: list[str], noun: str) -> None:
    print_lines(first_lines(lines, MAX_SHOWN, noun, "the workbook lists them all"))


def _print_proof(
    output_format: str, file: str, lines: Mapping[str, Sequence[str]], *, is_whole: bool
) -> int:
    """Print the differences and other facts about a verified file as rows. Return the exit code."""
    rows = [(file, is_whole, kind, words) for kind, each in lines.items() for words in each]
    print_rows(output_format, PROOF_COLUMNS, rows or [(file, is_whole, "whole", "")])
    return 0 if is_whole else 1


def _verify_pack(file: Path, output_format: str | None) -> int:
    check = verify_pack(file, program_version())
    if output_format:
        lines = {"difference": check.differences, "compared": check.compared}
        lines |= {"not compared": check.uncompared, "SHA-256": [check.sha256]}
        return _print_proof(output_format, str(file), lines, is_whole=check.is_whole)
    result = "all compared parts are unchanged" if check.is_whole else "has differences"
    print(f"{mark(is_well=check.is_whole)} {printable(f'{file}: {check.name}: {result}')}")
    print_lines(check.differences, f"{mark(is_well=False)} ")
    for title, parts in (("Compared", check.compared), ("Not compared", check.uncompared)):
        if parts:
            print(f"  {title}:")
        print_lines(parts, "    ")
    print(f"  SHA-256 {check.sha256} (must equal the value that `close` printed)")
    return 0 if check.is_whole else 1


def _folder(nightbook: Nightbook, *, is_movement: bool = False) -> Path:
    return nightbook.layout.home / RECORD_FOLDERS["movements" if is_movement else "ledger"]
