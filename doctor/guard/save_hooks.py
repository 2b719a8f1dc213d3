"""The files that the training writes with torch.save: where, and after which step."""

from __future__ import annotations

import os
import time
from pathlib import PurePath
from typing import Callable

from .foreign import Foreign
from .patches import Patches
from .switch import Switch
from .watch import Watch

LONGEST = 2000
"""Characters of a path that is recorded."""
MOST_SAVED = 10_000
"""Files whose saving is recorded."""


def install(switch: Switch, patches: Patches, watch: Watch) -> None:
    """Wrap torch.save, under both of its names."""
    torch = switch.torch
    original = torch.save
    for owner in (torch, torch.serialization):
        if owner.__dict__.get("save") is original:
            patches.replace(owner, "save", lambda before: _save(switch, watch, before))


def _save(switch: Switch, watch: Watch, original: Callable[..., Foreign]) -> Foreign:
    numbers = iter(range(MOST_SAVED))

    def note(args: Foreign, kwargs: Foreign) -> None:
        target = args[1] if len(args) > 1 else kwargs.get("f")
        if type(target) is str or isinstance(target, PurePath):  # no code of the program runs
            path = os.path.abspath(str(target))
            if watch.started and len(path) <= LONGEST and next(numbers, None) is not None:
                moment = int(1000 * time.time())
                watch.judging.judge_log()
                step = max((each.steps for each in watch.watches.values()), default=0)
                watch.writer.write("saved", path=path, step=step, moment=moment)

    def save(*args: Foreign, **kwargs: Foreign) -> Foreign:
        value = args[0] if args else kwargs.get("obj")
        switch.safely(watch.kept_states.used, value, "saved")
        result = original(*args, **kwargs)
        switch.safely(note, args, kwargs)
        return result

    return save
