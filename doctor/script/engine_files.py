"""The batch of DeepSpeed's JSON files that the launches of a script name."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable

from doctor._util.regular_file import read_regular
from doctor.facts.script import Launch, Setting, Span

FLAGS = ("deepspeed_config", "deepspeed")
"""Arguments that name the file: of DeepSpeed's own parser, and of transformers."""
KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
LIMIT = 1 << 16
MOST = 4
"""Files that are looked at for one script. Our own number."""


NAMED = re.compile(rb"""["']([\w./\-]+\.json)["']""")


def batches_of_engines(path: str, launches: Iterable[Launch], data: bytes) -> tuple[Setting, ...]:
    """As "file:key", of files that stand where the launch says, or beside a script that names
    them.
    """
    named = {
        name: os.path.dirname(launch.path)
        for launch in launches
        for flag in FLAGS
        if (name := engine_file(launch, flag))
    }
    if b"deepspeed.initialize" in data:
        own = (match.decode() for match in NAMED.findall(data))
        named |= {name: os.path.dirname(path) for name in own if name not in named}
    found: list[Setting] = []
    for name, directory in [*named.items()][:MOST]:
        settings = _read(os.path.join(directory, name)) or _read(
            os.path.join(os.path.dirname(path), os.path.basename(name))
        )
        found += [
            Setting(f"{name}:{key}", value, Span(1, 1, 1, 1))
            for key in KEYS
            if type(value := settings.get(key)) is int
        ]
    return tuple(found)


def engine_file(launch: Launch, *flags: str) -> str:
    """The JSON file that a launch passes, "" for none or a variable."""
    names = [launch.arguments[flag] for flag in flags or FLAGS if flag in launch.arguments]
    plain = [name for name in names if name.endswith(".json") and "$" not in name]
    return plain[0] if plain else ""


def _read(place: str) -> dict[str, object]:
    try:
        read = json.loads(read_regular(place, LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
