"""One module a command: `run(arguments, nightbook)` does it and gives the exit code."""
