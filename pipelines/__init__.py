"""HOW data moves: the API, landing, flattening, snapshots; and the sandbox. No Dagster, no DuckDB."""
