"""The shelf: judged nights in an object store, which machines share through its manifests."""
