"""Sheets as finance wants them: exact, harmless, framed for reading and printing."""
