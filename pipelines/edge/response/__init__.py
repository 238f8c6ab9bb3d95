"""Response handling: receive and decode the body, check its structure, and classify errors."""
