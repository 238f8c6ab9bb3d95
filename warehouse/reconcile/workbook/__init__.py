"""Reconciliation workbooks: writing them, reading them back and verifying them."""
