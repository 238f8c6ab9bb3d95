"""The DuckDB file: built aside, verified, swapped in."""
