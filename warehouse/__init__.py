"""WHAT analysts and finance read: tables, database, views, workbooks. Imports nothing of ours."""
