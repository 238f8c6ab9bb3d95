"""Monitoring: conditions, alerts, metrics and the heartbeat."""
