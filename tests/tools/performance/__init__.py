"""Measurements of a night's cost: `make bench`. A benchmark asserts nothing but exactness."""
