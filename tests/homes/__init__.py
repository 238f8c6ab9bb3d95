"""Homes from older nightbooks, and the script that made them: `python -m tests.homes`."""
