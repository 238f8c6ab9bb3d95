"""A workbook read back and held against what was written."""
