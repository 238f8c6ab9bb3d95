"""The workbook of a reconciliation: written, read back, verified."""
