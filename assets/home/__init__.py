"""A home as a whole: demo, backup, restore."""
