"""Views, macros and checks, one SQL file each, and the catalog that reads them."""
