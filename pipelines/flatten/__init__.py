"""Flattening of the API's records into table rows."""
