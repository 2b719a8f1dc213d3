"""Everything a run knows: records without thresholds, to and from JSON."""
