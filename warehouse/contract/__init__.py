"""The contract: a declaration of all tables, columns and keys as plain data."""
