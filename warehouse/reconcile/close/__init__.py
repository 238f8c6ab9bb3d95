"""The monthly close, which locks a month's days and collects its evidence in one file."""
