"""The Dagster graph: assets, checks, job, schedule and sensors."""
