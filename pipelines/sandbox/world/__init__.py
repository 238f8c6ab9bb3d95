"""The portfolios, venues and instruments that the sandbox shows."""
