"""Responses: receive and decode the body, check it, and classify errors."""
