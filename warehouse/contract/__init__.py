"""The contract for all tables, declared once as data."""
