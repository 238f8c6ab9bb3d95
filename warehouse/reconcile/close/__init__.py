"""The close of a month: its days are locked, and all of its evidence is in one file."""
