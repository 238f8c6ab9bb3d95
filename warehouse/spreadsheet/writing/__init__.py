"""Workbooks written exactly and in constant memory."""
