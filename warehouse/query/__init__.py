"""Queries of a published warehouse."""
