"""The settings in recon.toml."""
