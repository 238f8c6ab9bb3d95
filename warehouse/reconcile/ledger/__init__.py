"""Reading a ledger: its files, header and rows."""
