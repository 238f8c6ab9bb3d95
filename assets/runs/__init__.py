"""Runs of the nightly job, and cleanup after runs that died."""
