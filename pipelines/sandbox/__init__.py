"""An API server written only from the specification. It shares no code with the client."""
