"""A simulated API server, based only on the specification. It shares no code with the client.

References such as §5.2 point to sections of the API document.
"""
