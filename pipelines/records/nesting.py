"""How deep a record may be nested: the same wherever it is read.

A decoder gives up at a depth that hangs on the calls it stands below, so that a night could be
read in one way and rebuilt in another. This bound is below what any of them takes.
"""

import re

import numpy as np

DEEPEST = 500
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BUT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[{]}")
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1


def is_too_deep(raw: bytes) -> bool:
    """Return whether a JSON text is nested more than `DEEPEST` times."""
    # Nearly every record has fewer brackets than that and is through here, without being looked
    # into.
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return False
    # Without the strings only the brackets count. Each is a step up or down, and the running sum is
    # the depth: for a record with many brackets this is much quicker than a loop over bytes.
    brackets = _STRING.sub(b"", raw).translate(None, _BUT_BRACKETS)
    steps = _STEPS[np.frombuffer(brackets, np.uint8)]
    return bool(np.cumsum(steps, dtype=np.int32).max(initial=0) > DEEPEST)
