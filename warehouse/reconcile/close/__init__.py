"""The close of a month: its days locked, and all that stands behind them in one file."""
