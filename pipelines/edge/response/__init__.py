"""What came over the wire, bounded, decoded and checked."""
