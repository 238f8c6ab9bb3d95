"""Breaks: identity, age and suggested cause."""
