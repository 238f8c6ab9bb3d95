"""The states of a snapshot, as stored in `ops.snapshots` and `ops.gaps`."""

COMPLETE = "complete"  # landed completely, but not judged yet
ACCEPTED = "accepted"
HELD = "held"  # a person must decide
REJECTED = "rejected"
PRUNED = "pruned"  # its bodies and tables were deleted, its manifest and decisions are kept
NO_SNAPSHOT = "no snapshot"  # for a date on which no snapshot was pulled
REMOVED = "removed"  # for an organisation that is no longer in firm.toml

# A book older than this is stale. A night is a day old when the next one is due, which may be
# retried for hours.
STALE_HOURS = 36
