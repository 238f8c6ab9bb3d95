"""Writers for workbooks in which text never becomes a formula."""
