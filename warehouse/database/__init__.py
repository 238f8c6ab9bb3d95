"""The DuckDB file: built in a temporary folder, verified and then published."""
