"""Facts about figures: their night, and the sums that they are part of."""
