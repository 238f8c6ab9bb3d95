"""The shelf: judged nights in an object store. Machines share the nights by means of manifests."""
