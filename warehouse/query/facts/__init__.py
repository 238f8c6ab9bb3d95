"""What is known of a figure: its night, and the sums that it is part of."""
