"""What the stored values are evidence of: norms, moments, non-finite values, movement."""
