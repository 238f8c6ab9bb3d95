"""The landing zone: response bodies, manifests and decisions."""
