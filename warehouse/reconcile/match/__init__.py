"""The ledger and the book at one level, and the result for each key."""
