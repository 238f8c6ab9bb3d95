"""The exit codes of all commands. An exception class of this project may define its own."""

DONE, FAILED, WRONG_USAGE, A_PERSON_MUST_DECIDE = range(4)
