"""Versions as text: read, or known to be unreadable."""

from __future__ import annotations

import re
from collections.abc import Mapping

from packaging.version import InvalidVersion, Version

from doctor._util.units import shown

_SOURCE_BUILD = re.compile(r"v?(\d{1,6}(?:\.\d{1,6}){1,3})(?:[-+._A-Za-z][A-Za-z0-9+._-]{0,60})?")
"""A release and what a build of one's own adds to it: 2.1.0-nv23.06-dirty."""


def read_version(text: str) -> Version | None:
    """The version, of a build of one's own the release; None for what is no version."""
    try:
        return Version(text)
    except InvalidVersion:
        match = _SOURCE_BUILD.fullmatch(text)
        return Version(match[1]) if match else None


def unreadable_versions(versions: Mapping[str, str | None]) -> str:
    """Which of these, by what they are the version of, is none: a reason for unknown, or ""."""
    for name, text in versions.items():
        if text and read_version(text) is None:
            return f"the version of {name} cannot be read: {shown(text)}"
    return ""
