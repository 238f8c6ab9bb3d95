"""HOW data moves: the API, landing, flattening, snapshots and the sandbox. No Dagster."""

import warehouse.contract  # noqa: F401 - `warehouse` sets defaults before NumPy is imported
