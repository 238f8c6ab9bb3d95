"""Workbook writers that never let text become a formula."""
