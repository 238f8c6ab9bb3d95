"""HOW data moves: the API, landing, flattening, snapshots; the sandbox. No Dagster."""
