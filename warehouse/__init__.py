"""WHAT analysts and finance read: tables, database, views, checks, workbooks. Imports nothing of ours."""
