"""Files of a home: their paths, and how they are written safely."""
