"""The stored state of a reconciliation: runs, comments, signatures, closed months."""
