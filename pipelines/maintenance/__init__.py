"""Verification, pruning and rebuilding of a home."""
