"""The reconciliation of the book with ledgers in any layout, exact to the last digit."""
