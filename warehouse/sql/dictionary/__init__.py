"""The data dictionary, generated from the contract."""
