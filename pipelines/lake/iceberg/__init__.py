"""The lake as Iceberg tables, so that Spark, Trino, Snowflake and others read it; an extra."""
