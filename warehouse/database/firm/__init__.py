"""The firm's book: the published nights of several homes in one file, with a source column."""
