"""The lake: judged nights, their Parquet files and their lessons."""
