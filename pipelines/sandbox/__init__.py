"""A server for the API, written only from the specification. It shares no code with the client."""
