"""The states of a snapshot, as stored in `ops.snapshots` and `ops.gaps`."""

COMPLETE = "complete"  # landed completely, but not judged yet
ACCEPTED = "accepted"
HELD = "held"  # a person must decide
REJECTED = "rejected"
PRUNED = "pruned"  # bodies and tables were deleted, but manifest and decisions are kept
NO_SNAPSHOT = "no snapshot"  # for a date on which no snapshot was pulled
REMOVED = "removed"  # for an organisation that is no longer in firm.toml

# A book older than this is stale. The limit is more than a day, because the next night may be
# retried for hours.
STALE_HOURS = 36
