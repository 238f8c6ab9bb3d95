"""Comparison of the ledger with the book at one level, with a result for each key."""
