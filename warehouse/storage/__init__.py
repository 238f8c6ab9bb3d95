"""The files in a home: their paths, and how to write them safely."""
