"""One book as a workbook, CSV or Parquet."""
