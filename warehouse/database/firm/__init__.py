"""The firm's book: what several homes have published, in one file, with the source in front."""
