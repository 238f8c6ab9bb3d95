"""How a request is sent, paced, retried and timed."""
