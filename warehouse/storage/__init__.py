"""Where files lie in a home, and how a file appears whole."""
