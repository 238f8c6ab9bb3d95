"""The console: declaration of commands, output, errors and completion."""
