"""Ledger and book joined, compared and classified."""
