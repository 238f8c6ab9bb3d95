"""Writers of workbooks whose texts never become formulas."""
