"""Pulling one snapshot from the API."""
