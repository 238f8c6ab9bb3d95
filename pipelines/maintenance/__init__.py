"""Verification and retention of a home."""
