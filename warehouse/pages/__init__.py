"""Read-only pages over the published book, as functions that know no server."""
