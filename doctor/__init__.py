"""A preflight doctor for people who train models on GPUs."""

from doctor._version import __version__ as __version__

DISTRIBUTION = "preflight-doctor"
"""Its name on PyPI, where another distribution has a package of the same name."""

REPOSITORY = "https://github.com/OWNER/REPOSITORY"
"""With the names of the published copy; docs/releasing.md says how they are filled in."""

SOURCE = f"git+{REPOSITORY}@REVISION"
"""What every document installs, with the names of a copy and its commit filled in: nobody owns the
name of the distribution on PyPI yet, and a stranger could register it."""
