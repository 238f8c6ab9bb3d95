"""Tools that measure and mutate the code. They are not tests."""
