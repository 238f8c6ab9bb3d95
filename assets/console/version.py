"""The version of nightbook; looking it up reads the metadata of packages: a query need not."""

from importlib.metadata import version


def program_version() -> str:
    """Return the version of nightbook that runs."""
    return version("nightbook")
