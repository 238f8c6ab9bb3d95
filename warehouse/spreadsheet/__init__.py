"""Spreadsheets: reading files from other programs, and writing workbooks."""
