"""The ledger and the book at one level, and the result of each key."""
