"""One snapshot, read from the API."""
