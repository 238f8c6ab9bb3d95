"""Control totals: two independent counts of all rows and amounts."""
