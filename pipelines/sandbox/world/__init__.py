"""The invented portfolios, venues and instruments that the sandbox serves."""
