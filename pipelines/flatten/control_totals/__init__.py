"""Rows and sums counted twice by separate routes."""
