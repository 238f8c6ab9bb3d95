"""Homes as older nightbooks left them, and how they were made: `python -m tests.homes`."""
