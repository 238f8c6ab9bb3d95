"""The morning report: one HTML page about last night and the newest book."""
