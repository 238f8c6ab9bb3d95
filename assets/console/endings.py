"""How a command ends that could not do its work: one paragraph, and an exit code."""

import sys

from assets.console.own_errors import disk_words, is_ours
from assets.nightbook import Nightbook
from warehouse.query.printable import printable_lines

FAILED = 1


def report_error(error: Exception, nightbook: Nightbook) -> int:
    """Say an error in one paragraph; ours write their own sentence."""
    words = str(error) if is_ours(error) else disk_words(error, nightbook.layout.home)
    if words is not None:
        print(printable_lines(words), file=sys.stderr)
        return getattr(error, "exit_code", FAILED)
    if isinstance(error, FileNotFoundError | PermissionError) and error.errno is None:
        print(printable_lines(str(error)), file=sys.stderr)
        return FAILED
    print(
        f"nightbook stopped at something it did not expect ({type(error).__name__}: "
        f"{printable_lines(str(error))}). The last published warehouse stands. Run it again with "
        "--debug before the command to see where.",
        file=sys.stderr,
    )
    return FAILED
