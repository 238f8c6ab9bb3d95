"""The API as a client: protocol, errors, signing, models. Imports nothing else of ours."""
