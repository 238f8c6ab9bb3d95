"""The ledger: its files, its header, its rows."""
