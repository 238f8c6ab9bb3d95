"""The API as a server, written from the specification alone. Shares no code with the client."""
