"""Workbooks of the old binary format whose writers state a code page that is not theirs."""

import struct

_BOOK = b"\x09\x08\x10\x00\x00\x06\x05\x00"  # the first record of a workbook of BIFF8
_SECTOR = 512
_CODE_PAGE = 0x42
_UTF_16 = struct.pack("<H", 1200)


def mend_code_page(content: bytes) -> bytes:
    """Return a workbook whose code page is the only one that BIFF8 has.

    Perl's and PHP's writers state that of Windows, and the common reader then takes each text for
    twice as long as it is, with a zero after each letter.
    """
    place = content.find(_BOOK)
    while place >= 0:
        end = min(place - place % _SECTOR + _SECTOR, len(content))
        at = place
        while at + 6 <= end:
            record, length = struct.unpack_from("<HH", content, at)
            if record == _CODE_PAGE and length == len(_UTF_16):
                content = content[: at + 4] + _UTF_16 + content[at + 6 :]
                break
            at += 4 + length
        place = content.find(_BOOK, place + 1)
    return content
