"""The stored state of a reconciliation: runs, comments, signatures and closed months."""
