"""One night as plain functions: the steps in order, their results, and the log of each run."""
