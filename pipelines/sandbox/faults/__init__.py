"""The faults that the sandbox can simulate."""
