"""Facts about a night and its figures, and the published sums that include a figure."""
