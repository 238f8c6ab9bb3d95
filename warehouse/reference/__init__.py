"""The room of `reference/`: tables that people bring, such as prices and labels."""
