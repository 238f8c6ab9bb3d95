"""Queries against a published warehouse."""
