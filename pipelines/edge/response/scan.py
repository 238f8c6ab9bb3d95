"""A large body taken apart step by step, so that memory does not grow with it.

msgspec checks one value and says at which byte the next thing stands; that is a step. Between steps
the pages of a memory map are given back. A step costs two microseconds, which is nothing beside a
portfolio and too much for each of a thousand small records: smaller bodies are read in one pass.
"""

import re
from array import array
from mmap import mmap

import msgspec

from pipelines.edge.errors import Misread
from pipelines.edge.response.body import give_back

# Keys an envelope may have (the document has two): a body of keys must not fill the memory.
MEMBERS = 64
# Records one list may have: nor must a body of `{}`.
RECORDS = 250_000
# Bytes one record may have: what is checked in one step lies in memory at once.
LARGEST = 1 << 27
# Bytes a member beside `data` may have before its end is looked for no more.
OTHER = 1 << 21

_SPACE = re.compile(rb"[ \t\n\r]*")
_NEXT = re.compile(r"trailing characters \(byte ([0-9]+)\)")
_GIVE_BACK = 1 << 25


class Scan:
    """The members of the outermost object, and where the records of `data` are, or `Misread`."""

    def __init__(self, body: bytes | mmap | memoryview) -> None:
        self._body = body
        self._view = memoryview(body)
        self._at = self._given_back = 0
        self.members: dict[str, msgspec.Raw] = {}
        # First and last-but-one byte of each record, in turn, counted from the start of `data`.
        self.spans = array("Q")
        self._take(b"{")
        # An empty object ends at once; after a comma there must be another member.
        while self._peek() != b"}" or self.members:
            self._member()
            if self._peek() == b"}":
                break
            self._take(b",")
        self._take(b"}")
        if self._peek():
            raise Misread(f"something follows the document at byte {self._at}")

    def _member(self) -> None:
        if self._peek() != b'"':
            raise Misread(f"no key of an object at byte {self._at}")
        start, end = self._value(LARGEST)
        key: str = msgspec.json.decode(self._view[start:end], type=str)
        if key in self.members:
            raise Misread(f"the envelope has the key `{key[:40]}` twice")
        if len(self.members) == MEMBERS:
            raise Misread(f"the envelope has more than {MEMBERS} members")
        self._take(b":")
        is_list = self._peek() == b"["
        is_data = key == "data"
        limit = LARGEST if is_data else OTHER
        start, end = self._records() if is_data and is_list else self._value(limit)
        self.members[key] = msgspec.Raw(self._view[start:end])

    def _records(self) -> tuple[int, int]:
        start = self._at
        self._at += 1
        while self._peek() != b"]" or self.spans:
            if len(self.spans) == 2 * RECORDS:
                raise Misread(f"`data` has more than {RECORDS:,} records")
            first, end = self._value(LARGEST)
            self.spans.extend((first - start, end - start))
            if self._peek() == b"]":
                break
            self._take(b",")
        self._take(b"]")
        return start, self._at

    def _value(self, limit: int) -> tuple[int, int]:
        """Return where the value at hand begins and ends; what follows it is at hand afterwards."""
        self._peek()
        start = self._at
        self._at += _step(self._view[start : start + limit], limit)
        if self._at - self._given_back >= _GIVE_BACK:
            self._given_back = self._at
            give_back(self._body)
        end = self._at
        while self._view[end - 1] in b" \t\n\r":
            end -= 1
        return start, end

    def _peek(self) -> bytes:
        space = _SPACE.match(self._view, self._at)
        self._at = space.end() if space else self._at
        return bytes(self._view[self._at : self._at + 1])

    def _take(self, wanted: bytes) -> None:
        if (letter := self._peek()) != wanted:
            shown = repr(letter.decode("latin-1")) if letter else "its end"
            raise Misread(f"not a JSON object: {wanted.decode()} was expected, not {shown}")
        self._at += 1


# msgspec decodes one value and refuses what follows it, naming the byte at which that stands. Its
# refusal is used as a step: it has checked the value, and says where the next thing begins.
def _step(view: memoryview, limit: int) -> int:
    """Return bytes to the next thing after the value that begins here."""
    try:
        msgspec.json.decode(view, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        message = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    else:
        return len(view)
    if step := _NEXT.search(message):
        return int(step[1]) - 1
    if len(view) == limit:
        raise Misread(f"a record, or a member beside `data`, is larger than {limit:,} bytes")
    raise Misread(f"not JSON: {message}")
