"""WHEN data moves: the only room that knows Dagster, and the command line."""
