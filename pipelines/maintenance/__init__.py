"""Verifying, pruning and rebuilding a home."""
