"""The contract of all tables, declared once as data."""
