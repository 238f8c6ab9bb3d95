"""Export of one book as a workbook, CSV or Parquet."""
