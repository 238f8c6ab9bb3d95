"""Optional Iceberg tables over the lake's files, for Spark, Trino, Snowflake and other engines."""
