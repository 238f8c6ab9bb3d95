"""HOW data moves: the API, landing, flattening, snapshots; the sandbox. No Dagster."""

import warehouse.contract  # noqa: F401 - its room tells numpy what to leave, before it is loaded
