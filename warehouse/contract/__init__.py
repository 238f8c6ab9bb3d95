"""What every table promises, declared once, as data."""
