"""Data movement without Dagster: API client, landing, flattening, snapshots and sandbox."""

import warehouse.contract  # noqa: F401 - `warehouse` sets defaults before NumPy is imported
