"""The states of a snapshot, as stored in `ops.snapshots` and `ops.gaps`."""

COMPLETE = "complete"  # all responses have landed, but the guards have not judged the night yet
ACCEPTED = "accepted"
HELD = "held"  # a person must decide whether the snapshot becomes the book
REJECTED = "rejected"
PRUNED = "pruned"  # bodies and tables were deleted, but the manifest and the decisions were not
NO_SNAPSHOT = "no snapshot"  # no snapshot was pulled on this date

# The age in hours at which a book becomes stale. The limit is more than a day, because retries of
# the next night may take hours.
STALE_HOURS = 36
