"""What an operator must hear of: conditions, alerts, metrics."""
