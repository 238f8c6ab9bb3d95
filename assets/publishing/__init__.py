"""Publication of the lake as a warehouse, after a night or a decision."""
