"""Rows and sums that are counted twice, by independent code."""
