"""Lake to warehouse, after a night or a decision."""
