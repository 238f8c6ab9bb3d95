"""JSON records, read fast where they are as documented and tolerantly where not."""
