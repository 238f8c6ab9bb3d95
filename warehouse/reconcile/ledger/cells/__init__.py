"""Cells as amounts and dates."""
