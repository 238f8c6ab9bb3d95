"""What is published of a night: the warehouse and its views, files for people, decisions."""
