"""Records as rows of the tables."""
