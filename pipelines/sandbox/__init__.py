"""An API server, written from the specification alone. It shares no code with the client.

References such as §5.2 name a section of the API document.
"""
