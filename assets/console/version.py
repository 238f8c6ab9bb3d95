"""The version of nightbook; looking it up reads the metadata of packages: a query need not."""

import importlib


def program_version() -> str:
    """Return the version of nightbook that runs."""
    # Imported here: a question on the command line starts without reading such metadata.
    return str(importlib.import_module("importlib.metadata").version("nightbook"))
