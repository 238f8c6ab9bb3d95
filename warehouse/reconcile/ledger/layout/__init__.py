"""Layouts: names above or left out, totals among the rows, amounts in parts."""
