"""The version of a checkout; a build of a tagged commit has the tag instead (hatch_build.py)."""

__version__ = "1.0.0rc1"
