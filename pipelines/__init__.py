"""The packages that move data. They do not depend on Dagster."""

import warehouse.contract  # noqa: F401 - `warehouse` sets defaults before NumPy is imported
