"""An archive of the very files that runs read, ledgers and settings, each once by its SHA-256.

A file goes only with `close`, and only if a pack of a closed month has it and it is older than
`keep_days` in recon.toml.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from warehouse.reconcile.settings.config import TEMPLATE
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.terms.errors import NotReconciled
from warehouse.spreadsheet.reading.archives import LedgerFile
from warehouse.spreadsheet.reading.grid import OpenedFile
from warehouse.storage.layout import written_aside


def archived_path(store: Store, sha256: str) -> Path:
    """Return where the file of a digest lies, whether it is there or not."""
    return store.root / "kept" / sha256


def archive_inputs(store: Store, ledgers: Iterable[OpenedFile], settings: str) -> None:
    """Archive the ledgers of a run, and recon.toml, by the digests under which they were read.

    Raises `NotReconciled` where one of them is another one by now.
    """
    for ledger in ledgers:
        _archive(store, ledger.path, ledger.sha256)
    _archive(store, store.config, settings, TEMPLATE.encode())


def _archive(store: Store, path: LedgerFile, sha256: str, otherwise: bytes = b"") -> None:
    # Archived is what was read: a file that was saved between the two is found by its digest.
    if archived_path(store, sha256).exists():
        return
    content = path.read_bytes() if path.is_file() else otherwise
    if hashlib.sha256(content).hexdigest() != sha256:
        raise NotReconciled(
            f"{path.name} was changed while it was read. Nothing was reconciled. Run again."
        )
    with written_aside(archived_path(store, sha256)) as file:
        file.write(content)
