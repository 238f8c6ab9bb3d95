"""WHEN data moves: the command line, and the only package that knows Dagster."""
