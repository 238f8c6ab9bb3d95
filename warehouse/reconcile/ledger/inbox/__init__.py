"""The inbox: which files are tonight's ledgers."""
