"""Functions that read a ledger's files, header and rows."""
