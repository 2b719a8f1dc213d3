"""Readers of checkpoints: headers and norms, with the standard library alone."""
