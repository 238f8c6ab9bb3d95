"""The contract, which declares all tables, columns and keys in one place as data."""
