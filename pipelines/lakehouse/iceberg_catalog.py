"""Access to the Iceberg catalog, and commits that change several tables at once.

The catalog is a PostgreSQL database (`postgresql://…`, which Spark, Trino and Flink use as a JDBC
catalog) or a REST catalog (`https://…`). In PostgreSQL, one transaction swaps the metadata pointers
of all tables. A REST catalog commits all tables at once. If it does not support that, tables are
committed one by one, and the gate table last.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException, RESTError
from pyiceberg.table import CommitTableRequest
from sqlalchemy import update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from pipelines.lakehouse.addresses import DATABASE, OF_POSTGRESQL, OF_PYICEBERG, StoreAddress
from pipelines.lakehouse.errors import Conflict, NoCatalog, without_secrets

NAME = "nightbook"
REFUSED = 409  # HTTP status that a REST catalog returns if a table was changed in the meantime
# HTTP statuses from REST catalogs that cannot commit several tables at once.
CANNOT = (404, 405, 406, 501)
# Environment variables that configure a store, each with its pyiceberg option.
STORE = {
    "AWS_ENDPOINT_URL": "s3.endpoint",
    "AWS_ACCESS_KEY_ID": "s3.access-key-id",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "AWS_SESSION_TOKEN": "s3.session-token",
    "AWS_REGION": "s3.region",
    "AZURE_STORAGE_ACCOUNT_NAME": "adls.account-name",
    "AZURE_STORAGE_ACCOUNT_KEY": "adls.account-key",
}


@contextlib.contextmanager
def open_catalog(
    uri: str, shelf: StoreAddress, options: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Any]:
    """Open the catalog at an address. A PostgreSQL catalog stores table metadata on the shelf.

    `options` contains the variables for PostgreSQL (`PGPASSWORD`) and for pyiceberg
    (`PYICEBERG_CATALOG__NIGHTBOOK__…`). If the catalog fails, raises `NoCatalog` with the reason,
    without passwords and keys.
    """
    variables = {**os.environ, **shelf.options}
    properties = {_property(name): value for name, value in options.items() if _property(name)}
    properties |= {
        name: variables[variable] for variable, name in STORE.items() if variables.get(variable)
    }
    address = uri
    if uri.startswith(f"{DATABASE}://"):
        address = _database_url(uri, options)
        properties["warehouse"] = f"{shelf.url}/iceberg"
    try:
        with load_catalog(NAME, uri=address, **properties) as catalog:
            yield catalog
    except (SQLAlchemyError, RESTError, OSError, ValueError) as error:
        reason = str(getattr(error, "orig", None) or error)
        known = {**shelf.options, **options}
        reason = without_secrets(reason, known, make_url(uri).password) or type(error).__name__
        raise NoCatalog(reason) from None


def commit_together(catalog: Catalog, transactions: Sequence[Any]) -> None:
    """Commit all changes to several tables, or none. Raises `Conflict` if a table has changed.

    A REST catalog that can only commit one table at a time changes the tables in the given order.
    """
    if isinstance(catalog, SqlCatalog):
        _swap_pointers(catalog, transactions)
    elif not (isinstance(catalog, RestCatalog) and _commit_at_once(catalog, transactions)):
        for transaction in transactions:
            try:
                transaction.commit_transaction()
            except CommitFailedException as error:
                raise Conflict(_name(transaction)) from error


def _property(name: str) -> str:
    """Convert a variable's name to a pyiceberg property. For other variables, return ""."""
    is_its_own = name.startswith(OF_PYICEBERG)
    key = name.removeprefix(OF_PYICEBERG).lower()
    return key.replace("__", ".").replace("_", "-") if is_its_own else ""


def _database_url(uri: str, options: Mapping[str, str]) -> str:
    """Fill in the missing parts of a database address from PostgreSQL's environment variables.

    Values in the address take precedence.
    """
    url = make_url(uri).set(drivername="postgresql+psycopg")
    given = {word: options[name] for name, word in OF_POSTGRESQL.items() if options.get(name)}
    url = url.set(
        username=url.username or given.pop("user", None),
        password=url.password or given.pop("password", None),
    )
    rest = {word: value for word, value in given.items() if word not in ("user", "password")}
    url = url.set(query={**rest, **url.query})
    return str(url.render_as_string(hide_password=False))


def _name(transaction: Any) -> str:
    return ".".join(transaction._table.name())  # noqa: SLF001 - pyiceberg has no public name for it


def _swap_pointers(catalog: SqlCatalog, transactions: Sequence[Any]) -> None:
    """Write new metadata for all tables, then switch all tables to it in one SQL transaction."""
    staged = []
    for transaction in transactions:
        table = transaction._table  # noqa: SLF001 - pyiceberg commits one table at a time only
        waiting = transaction._requirements, transaction._updates  # noqa: SLF001 - the same
        changes = [tuple(part) for part in waiting]
        try:
            stage = catalog._update_and_stage_table  # noqa: SLF001 - the public one commits
            new = stage(table, table.name(), *changes)
        except CommitFailedException as error:
            raise Conflict(_name(transaction)) from error
        write = catalog._write_metadata  # noqa: SLF001 - the same
        write(new.metadata, new.io, new.metadata_location)
        staged.append((table, new.metadata_location))
    with Session(catalog.engine) as session, session.begin():
        # Always use the same order, so that two writers cannot deadlock.
        for table, location in sorted(staged, key=lambda pair: pair[0].name()):
            if not session.execute(_swap(catalog, table, location)).rowcount:
                raise Conflict(".".join(table.name()))


def _swap(catalog: SqlCatalog, table: Any, location: str) -> Any:
    *namespace, name = table.name()
    is_as_read = (
        (IcebergTables.catalog_name == catalog.name)
        & (IcebergTables.table_namespace == ".".join(namespace))
        & (IcebergTables.table_name == name)
        & (IcebergTables.metadata_location == table.metadata_location)
    )
    return (
        update(IcebergTables)
        .where(is_as_read)
        .values(
            metadata_location=location,
            previous_metadata_location=table.metadata_location,
        )
    )


def _commit_at_once(catalog: RestCatalog, transactions: Sequence[Any]) -> bool:
    """Commit all tables in one REST request. Return False if the catalog cannot do this."""
    changes = []
    for transaction in transactions:
        *namespace, name = transaction._table.name()  # noqa: SLF001 - as above
        request = CommitTableRequest(
            identifier={"namespace": namespace, "name": name},
            requirements=transaction._requirements,  # noqa: SLF001 - as above
            updates=transaction._updates,  # noqa: SLF001 - as above
        )
        changes.append(json.loads(request.model_dump_json()))
    answer = catalog._session.post(  # noqa: SLF001 - there is no method for this
        catalog.url("transactions/commit"), json={"table-changes": changes}
    )
    if answer.status_code in CANNOT:
        return False
    if answer.status_code == REFUSED:
        raise Conflict(", ".join(map(_name, transactions)))
    answer.raise_for_status()
    return True
