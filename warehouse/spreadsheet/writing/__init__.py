"""Writers for workbooks. They never write text in a way that turns it into a formula."""
