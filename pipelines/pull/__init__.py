"""The pull of one snapshot from the API."""
