"""The landing zone: bodies, manifests and decisions."""
