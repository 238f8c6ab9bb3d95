"""The states of a snapshot, as stored in `ops.snapshots` and `ops.gaps`."""

COMPLETE = "complete"  # landed completely, but not judged yet
ACCEPTED = "accepted"
HELD = "held"  # a person must decide
REJECTED = "rejected"
PRUNED = "pruned"  # bodies and tables were deleted, but manifest and decisions are kept
NO_SNAPSHOT = "no snapshot"  # no snapshot was pulled on this date
REMOVED = "removed"  # the organisation is no longer in firm.toml

# A book older than this is stale. The limit is more than a day, because retries of the next night
# may take hours.
STALE_HOURS = 36
