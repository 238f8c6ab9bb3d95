"""The shelf: judged nights in an object store. Machines share nights through manifests."""
