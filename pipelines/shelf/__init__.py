"""The shelf: judged nights on an object store, for other machines; its manifests alone count."""
