"""The header row: which column is what."""
