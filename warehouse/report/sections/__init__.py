"""The sections of the morning report."""
