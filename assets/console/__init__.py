"""The console: command declarations, output, errors and completion."""
