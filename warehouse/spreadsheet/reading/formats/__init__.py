"""Formats of spreadsheets that the common reader does not take, or takes wrongly."""
