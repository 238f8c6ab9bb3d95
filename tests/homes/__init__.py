"""A home and landing folders from older nightbooks, and the script that makes such a home."""
