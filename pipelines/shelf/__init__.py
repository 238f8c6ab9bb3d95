"""The shelf: judged nights in an object store, shared between machines through its manifests."""
