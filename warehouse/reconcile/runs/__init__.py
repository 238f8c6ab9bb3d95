"""Runs: ledgers held against a book, and a look at a ledger before that."""
