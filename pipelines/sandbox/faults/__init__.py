"""Faults that the sandbox rehearses."""
