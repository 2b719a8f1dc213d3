"""The job file: discovery, trust, decoding, messages."""
