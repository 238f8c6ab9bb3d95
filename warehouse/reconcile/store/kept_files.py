"""The very files that runs read, ledgers and settings, kept once each under their SHA-256.

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
from warehouse.storage.layout import written_aside


def kept_path(store: Store, sha256: str) -> Path:
    """Return where the file of a digest lies, whether it is there or not."""
    return store.root / "kept" / sha256


def keep_ledgers(store: Store, files: Iterable[tuple[LedgerFile, str]]) -> None:
    """Keep files by the digests under which they were read.

    Raises `NotReconciled` where one of them is another one by now.
    """
    for path, sha256 in files:
        if not kept_path(store, sha256).exists():
            _keep(store, path.name, path.read_bytes() if path.is_file() else b"", sha256)


def keep_settings(store: Store, sha256: str) -> None:
    """Keep recon.toml as it was read; raises `NotReconciled` where it is another one by now."""
    if not kept_path(store, sha256).exists():
        is_there = store.config.exists()
        content = store.config.read_bytes() if is_there else TEMPLATE.encode()
        _keep(store, store.config.name, content, sha256)


def _keep(store: Store, name: str, content: bytes, sha256: str) -> None:
    # What is kept is what was read: a file that was saved between the two is found by its digest.
    if hashlib.sha256(content).hexdigest() != sha256:
        raise NotReconciled(
            f"{name} was changed while it was read. Nothing was reconciled. Run again."
        )
    with written_aside(kept_path(store, sha256)) as file:
        file.write(content)
