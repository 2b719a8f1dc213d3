"""A preflight doctor for people who train models on GPUs."""

DISTRIBUTION = "preflight-doctor"
"""Its name on PyPI, where another distribution has a package of the same name."""

__version__ = "0.1.0"
