"""The workbook of a reconciliation, which is written, read back and verified here."""
