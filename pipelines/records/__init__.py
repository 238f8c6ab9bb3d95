"""JSON records: a fast reader for documented records, and a tolerant reader for all others."""
