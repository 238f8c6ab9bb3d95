"""The morning report: one page of HTML that tells last night and the newest book."""
