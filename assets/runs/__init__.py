"""Runs of the nightly job, and cleanup of runs that died."""
