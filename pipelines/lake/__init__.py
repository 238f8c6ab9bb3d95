"""The lake: nights judged, accepted or held, and put in their place."""
