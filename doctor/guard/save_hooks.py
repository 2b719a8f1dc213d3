"""The files that the training writes with torch.save: where, and after which step."""

from __future__ import annotations

import os
import time
from typing import Callable

from .foreign import Foreign
from .patches import Patches
from .switch import Switch
from .watch import Watch


def install(switch: Switch, patches: Patches, watch: Watch) -> None:
    """Wrap torch.save, under both of its names."""
    torch = switch.torch
    original = torch.save
    for owner in (torch, torch.serialization):
        if owner.__dict__.get("save") is original:
            patches.replace(owner, "save", lambda before: _save(switch, watch, before))


def _save(switch: Switch, watch: Watch, original: Callable[..., Foreign]) -> Foreign:
    def save(*args: Foreign, **kwargs: Foreign) -> Foreign:
        result = original(*args, **kwargs)
        target = args[1] if len(args) > 1 else kwargs.get("f")
        if isinstance(target, (str, os.PathLike)) and not isinstance(os.fspath(target), bytes):
            path = os.path.abspath(os.fspath(target))
            switch.safely(watch.saved, path, time.time())
        return result

    return save
