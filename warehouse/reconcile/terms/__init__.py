"""The words every part of the reconciliation uses: dimensions, notices, errors."""
