"""Readers for ledgers from other programs, with limits on size and time."""
