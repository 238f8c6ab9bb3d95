"""The home: access, locks, demo, backup, dry runs, and its Dagster instance."""
