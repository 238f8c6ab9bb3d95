"""Spreadsheets: reading the files of other programs, and writing workbooks."""
