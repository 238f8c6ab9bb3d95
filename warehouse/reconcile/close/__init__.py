"""The close of a month, which locks its days and puts all of its evidence into one file."""
