"""The reconciliation: it compares the book with ledgers of any layout, exact to the last digit."""
