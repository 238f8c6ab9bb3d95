"""One module a command: its function `run` is given what was typed, and returns the exit code."""
