"""Numbers of YAML files that PyYAML reads as texts: 1e-4 has no dot."""

from __future__ import annotations

import os
import re

from doctor._util.regular_file import read_regular
from doctor.facts.script import Setting, Span

LOADS = (b"yaml.safe_load", b"yaml.load", b"yaml.full_load")
NAMED = re.compile(rb"""["']([\w./\-]+\.ya?ml)["']""")
TEXT = re.compile(
    r"^(?P<indent>\s*)(?:-\s+)?(?P<key>[\w.\-]+)\s*:\s+(?P<value>[-+]?(?:\d+[eE][-+]?\d+|"
    r"\d*\.\d*[eE]\d+))\s*(?:#.*)?$"
)
"""YAML 1.1, which PyYAML reads, wants a dot and a signed exponent."""
LIMIT = 1 << 16
MOST = 4
"""Files that are looked at for one script. Our own number."""


def texts_for_numbers(path: str, data: bytes) -> tuple[Setting, ...]:
    """Of the YAML files that a script loads and names, where they are beside it."""
    if not any(load in data for load in LOADS):
        return ()
    names = dict.fromkeys(name.decode() for name in NAMED.findall(data))
    found: list[Setting] = []
    for name in [*names][:MOST]:
        for place in (name, os.path.basename(name)):
            text = _read(os.path.join(os.path.dirname(path), place))
            if text:
                found += of_text(text, name)
                break
    return tuple(found)


def of_text(text: str, name: str = "") -> list[Setting]:
    """Keys whose values look like numbers and are none, as "file:key"."""
    lines = [(number, TEXT.match(line)) for number, line in enumerate(text.splitlines(), 1)]
    return [
        Setting(f"{name}:{match['key']}", match["value"], Span(number, 1, number, 1))
        for number, match in lines
        if match
    ]


def _read(path: str) -> str:
    try:
        return read_regular(path, LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""
