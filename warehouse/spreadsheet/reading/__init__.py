"""Cells of spreadsheets that other programs wrote, read with bounds."""
