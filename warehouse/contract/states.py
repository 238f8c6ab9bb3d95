"""The states of a snapshot, as `ops.snapshots` and `ops.gaps` name them."""

COMPLETE = "complete"  # landed whole, not judged yet
ACCEPTED = "accepted"
HELD = "held"  # a person must decide
REJECTED = "rejected"
PRUNED = "pruned"  # its manifest and decisions are kept for ever, its bodies and tables are not
NO_SNAPSHOT = "no snapshot"  # of a date: no night was taken
REMOVED = "removed"  # of an organisation: firm.toml does not name it any more

# A book older than this is stale: a night is a day old when the next one is due, which may be tried
# for hours.
STALE_HOURS = 36
