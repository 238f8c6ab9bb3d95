"""Results of reconciliations, kept as files and as rows of ops."""
