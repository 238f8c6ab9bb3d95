"""Events of an XML file, read with bounds: no declarations, no tree, and whole or not at all."""

from collections.abc import Mapping
from typing import IO, Protocol
from xml.parsers import expat

_CHUNK = 1_000_000


class NoSuchFormat(Exception):
    """A file is not of the format that its reader knows; the text says what it is instead."""


class Handler(Protocol):
    """What takes the events of a format: elements by their local names."""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take the beginning of an element."""

    def end(self, name: str) -> None:
        """Take the end of an element."""

    def text(self, letters: str) -> None:
        """Take some letters."""


def parse(file: IO[bytes], handler: Handler) -> None:
    """Give every event of a file to a handler, to its end.

    Raises `NoSuchFormat` for a file that is no whole XML, and for one that declares entities.
    """
    # Prefixes are whatever a writer chose: names are told apart without them, as elements of the
    # same local name do not stand in the same place.
    local = _LocalNames()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: handler.start(
        local[name], {local[key]: value for key, value in attributes.items()}
    )
    parser.EndElementHandler = lambda name: handler.end(local[name])
    parser.CharacterDataHandler = handler.text
    parser.StartDoctypeDeclHandler = _refuse_declarations
    try:
        while chunk := file.read(_CHUNK):
            parser.Parse(chunk)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise NoSuchFormat(f"its XML ends or breaks: {error}") from error


def _refuse_declarations(*_: object) -> None:
    raise NoSuchFormat("it declares a document type, as web pages and hostile files do")


class _LocalNames(dict[str, str]):
    """Names without their prefixes, each made once."""

    def __missing__(self, name: str) -> str:
        local = self[name] = name.rpartition(":")[2]
        return local
