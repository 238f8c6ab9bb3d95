"""What a night costs, measured: `make bench`. A benchmark measures; it asserts only exactness."""
