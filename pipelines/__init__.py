"""Data movement: API client, landing, flattening, snapshots and sandbox. Without Dagster."""

import warehouse.contract  # noqa: F401 - `warehouse` sets defaults before NumPy is imported
