"""Readers of ledgers that other programs wrote, with limits on size and time."""
