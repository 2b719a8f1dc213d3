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


def install(switch: Switch, patches: Patches, watch: Watch) -> None:
    """Wrap torch.save, under both of its names."""
    torch = switch.torch
    original = torch.save
    for owner in (torch, torch.serialization):
        if owner.__dict__.get("save") is original:
            patches.replace(owner, "save", lambda before: _save(switch, watch, before))


def _save(switch: Switch, watch: Watch, original: Callable[..., Foreign]) -> Foreign:
    def note(args: Foreign, kwargs: Foreign) -> None:
        target = args[1] if len(args) > 1 else kwargs.get("f")
        if type(target) is str or isinstance(target, PurePath):  # no code of the program runs
            path = os.path.abspath(str(target))
            if len(path) <= LONGEST:
                watch.saved(path, time.time())

    def save(*args: Foreign, **kwargs: Foreign) -> Foreign:
        value = args[0] if args else kwargs.get("obj")
        switch.safely(watch.kept_states.used, value, "saved")
        result = original(*args, **kwargs)
        switch.safely(note, args, kwargs)
        return result

    return save
