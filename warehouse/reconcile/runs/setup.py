"""Settle what is asked about a ledger: look at it, and add lines to recon.toml."""

from pathlib import Path

from warehouse.reconcile.matching import snapshot
from warehouse.reconcile.matching.firm_book import open_book
from warehouse.reconcile.matching.scope import scope_of
from warehouse.reconcile.runs.preview import Preview, preview
from warehouse.reconcile.runs.reconciliation import reading_context
from warehouse.reconcile.settings.config import TEMPLATE, parse_config, read_config
from warehouse.reconcile.store.store import Store
from warehouse.storage.layout import written_aside


def look_at(database: Path, folder: Path, file: Path) -> Preview:
    """Return what a run would read of a file for the newest book; nothing is stored.

    Raises `NotReconciled` if the file cannot be opened or covers a name that the book does not
    have, `NotExported` if there is no book.
    """
    store = Store(folder)
    config = read_config(store.config)
    with open_book(database, None) as source:
        reference = snapshot.read_reference(source, config.stale_hours)
        context = reading_context(store, config, reference, source.day)
        return preview(file, context, lambda ledger: scope_of(source, ledger, reference, config))


def settle(folder: Path, lines: str) -> None:
    """Add lines to recon.toml, after everything in it; nothing is written where they are wrong.

    Raises `NotReconciled` where the file could not be used with them.
    """
    store = Store(folder)
    store.make()
    before = store.config.read_text(encoding="utf-8") if store.config.exists() else TEMPLATE
    with written_aside(store.config) as file:
        content = f"{before.rstrip()}\n\n{lines.strip()}\n".encode()
        parse_config(content, store.config)
        file.write(content)
