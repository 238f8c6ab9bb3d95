"""Publication of the lake's nights as a warehouse, after a pull or a decision."""
