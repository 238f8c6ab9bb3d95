"""Finance ties out: a ledger in any sane shape, held against the book, exact to the last digit."""
