"""Questions to a published warehouse."""
