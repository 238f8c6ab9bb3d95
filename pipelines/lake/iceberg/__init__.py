"""Optional registration in Iceberg tables, for Spark, Trino, Snowflake and other engines."""
