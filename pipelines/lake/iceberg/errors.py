"""What keeps nights from being registered as Iceberg tables; book and shelf have them."""

from pipelines.lake.iceberg.address import NAMESPACE, SETTING


class NotRegistered(Exception):
    """Nights were not registered, or not all."""

    exit_code = 1


class NoIceberg(NotRegistered):
    """A catalog is set, and what writes its tables is not there."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            f"{SETTING} is set, and the packages that register tables are not installed. Nothing "
            "was registered; the book and the shelf are untouched. Install them where nightbook is "
            "(pip install 'nightbook[lakehouse]'), or unset the setting."
        )


class NoCatalog(NotRegistered):
    """The catalog cannot be reached, or does not let us in."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The Iceberg catalog of {SETTING} cannot be used: {reason.rstrip('.')}. The book is "
            "published here and on the shelf. Nothing was registered, and the next night registers "
            "what is missing. See that the catalog runs, that user and password are right and that "
            "the user may create tables; nightbook doctor looks again."
        )


class Conflict(NotRegistered):
    """Another writer has changed a table meanwhile, so nothing was committed."""

    def __init__(self, table: str) -> None:
        super().__init__(
            f"Another program has changed {table} in the Iceberg catalog while a night was being "
            "registered: nothing of it was committed. Let one machine register; run it again."
        )


class ForeignTable(NotRegistered):
    """A table of that name in the catalog has other columns than ours."""

    exit_code = 2

    def __init__(self, name: str, differences: list[str]) -> None:
        super().__init__(
            f"The Iceberg table {name} is not as this lake's files are: {'; '.join(differences)}. "
            "Was it made by another program, or by a newer nightbook? Nothing was registered. Name "
            f"a namespace of its own in {NAMESPACE}, or update nightbook."
        )
