"""The one door to xlsx, ods and csv files."""
