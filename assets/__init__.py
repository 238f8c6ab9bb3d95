"""The command line and the Dagster jobs. Only this package uses Dagster."""
