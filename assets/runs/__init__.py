"""One run of the nightly job, and runs that died."""
