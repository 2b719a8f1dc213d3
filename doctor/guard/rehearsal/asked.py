"""Settings of the program that speak of a resume: parsed arguments and dataclasses in memory."""

from __future__ import annotations

import argparse
import dataclasses
import gc
import re
from typing import Iterator, Tuple

from ..foreign import Foreign

SPEAKS = re.compile("resume|restart|continue", re.IGNORECASE)
MOST, LONGEST = 20, 500


def settings() -> Iterator[Tuple[str, str]]:
    """Name and value of those that are true or a text."""
    found = set()
    for each in gc.get_objects():
        kind = type(each)
        if issubclass(kind, argparse.Namespace):
            names = list(vars(each))
        elif dataclasses.is_dataclass(kind):
            names = list(kind.__dataclass_fields__)
        else:
            continue
        for name in filter(SPEAKS.search, map(str, names)):
            value: Foreign = getattr(each, "__dict__", {}).get(name)
            if value is True or (isinstance(value, str) and value):
                found.add((name[:LONGEST], str(value)[:LONGEST]))
    yield from sorted(found)[:MOST]
