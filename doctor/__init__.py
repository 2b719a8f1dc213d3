"""A preflight doctor for people who train models on GPUs."""

__version__ = "0.1.0"
