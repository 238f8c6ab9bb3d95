"""recon.toml, and what a person settled in it."""
