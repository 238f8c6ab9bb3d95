"""Reading of a ledger: its files, header and rows."""
