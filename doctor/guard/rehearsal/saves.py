"""What the training saves and loads: torch.save, safetensors, checkpoints of torch.distributed."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from types import ModuleType
from typing import Callable, Dict, List

from ..foreign import Foreign
from ..patches import Patches
from .audit import installed
from .failures import of_save
from .imports import after_import
from .shards import parts_in, shares_weights

HELD_SECONDS = 2.0
"""For the training to take a step while another thread is about to save its weights."""
POSITION = re.compile(
    r"^(?:train_?)?(?:data|stream|iterator|data_?loader|loader|data_?set|data_?iter)"
    r"(?:_?(?:state|state_dict|position|pos|offset|index))?$",
    re.IGNORECASE,
)
"""A key of a checkpoint under which there is how far the data are read."""
FEW, MOST_TEXT = 50, 2000
"""Things in that entry, and characters of it."""
MOST_HELD = 3
"""Saves that are held so."""


class Saves:
    """Records the state before each save, and what a load missed."""

    def __init__(self, observer: Foreign) -> None:
        self.observer = observer
        self.depth = 0
        self.audit = installed()
        self.parts: List[str] = []
        self.positions: Dict[str, str] = {}
        self.held = 0

    def install(self, torch: ModuleType, patches: Patches) -> None:
        """Wrap what saves, and what loads; listen to what Python code writes by itself."""
        if self.audit is not None:
            self.audit.saving = lambda path: self.observer.safely(self.opened, path)
        for owner in (torch, torch.serialization):
            patches.replace(owner, "save", lambda original: self.save(original, "torch.save", 1))
        patches.replace(torch.nn.Module, "load_state_dict", self.load_state)
        after_import(
            {
                "safetensors.torch": lambda found: patches.replace(
                    found, "serialize_file", lambda f: self.save(f, "safetensors", 1)
                ),
                "accelerate.accelerator": lambda found: patches.replace(
                    found.Accelerator, "load_state", self.restore
                ),
                "torch.distributed.checkpoint": lambda found: self.checkpoints(found, patches),
            }
        )

    def checkpoints(self, package: Foreign, patches: Patches) -> None:
        """The functions of torch.distributed.checkpoint, under both of their names."""
        module = sys.modules[package.__name__ + ".state_dict_saver"]
        for name in ("save", "async_save"):
            original = vars(module).get(name)
            if original is None:
                continue
            wrapped = self.save(original, f"torch.distributed.checkpoint.{name}", 1)
            for owner in (package, module):
                if vars(owner).get(name) is original:
                    patches.replace(owner, name, _constant(wrapped))

    def save(
        self, original: Callable[..., Foreign], name: str, place: int
    ) -> Callable[..., Foreign]:
        """A function that saves; its argument at `place` is the path."""
        observer = self.observer

        def saving(*args: Foreign, **kwargs: Foreign) -> Foreign:
            if self.depth or not observer.alive:
                return original(*args, **kwargs)
            path = args[place] if len(args) > place else kwargs.get("checkpoint_id")
            if name == "torch.save" and args:
                observer.safely(self.hold, args[0])
            self.parts = []
            self.positions = positions_in(args[0]) if name == "torch.save" and args else {}
            self.depth += 1
            began = time.monotonic()
            own = observer.own_seconds
            try:
                observer.safely(self.report_write, name, path)
                observer.safely(self.save_begins)
                if name == "torch.save" and args and observer.world > 1:
                    observer.safely(self.look_for_parts, args[0])
                result = original(*args, **kwargs)
            except Exception as error:
                observer.safely(self.save_failed, name, path, args, error)
                raise
            finally:
                self.depth -= 1
            seconds = time.monotonic() - began - (observer.own_seconds - own)
            observer.safely(self.save_ends, name, path, seconds)
            return result

        return saving

    def hold(self, value: Foreign) -> None:
        """Let the training go on, if it does not wait for another thread to save its weights: the
        guard sees then whether they were copied (GRD027)."""
        observer = self.observer
        own = threading.get_ident() == observer.thread
        if own or not observer.step or self.held >= MOST_HELD:
            return
        if shares_weights(observer.torch, value):
            self.held += 1
            step, end = observer.step, time.monotonic() + HELD_SECONDS
            while observer.step == step and time.monotonic() < end:
                time.sleep(0.01)

    def report_write(self, name: str, path: Foreign) -> None:
        """A path that C++ or Rust will open, which raises no audit event."""
        audit = self.audit
        if audit is not None and isinstance(path, (str, os.PathLike)):
            text = os.path.abspath(os.fspath(path))
            audit.wrote(name, text)
            audit.overwrites(name, text)

    def opened(self, path: str) -> None:
        """A file like a checkpoint's is about to be written, by pickle or numpy perhaps."""
        if not self.depth and self.observer.alive:
            self.save_begins()
            self.save_ends("open", path, 0.0)

    def save_begins(self) -> None:
        """The state that this save should hold."""
        observer = self.observer
        if observer.step:
            observer.begin()
            observer.evaluations.end()
            if threading.get_ident() == observer.thread:
                pending = observer.backwards() - observer.passes
                exchanged = observer.exchanged.saving()
                observer.hash_state("save", exchanged=exchanged, pending=pending)
            else:
                observer.hash_state("save", background=True)

    def look_for_parts(self, value: Foreign) -> None:
        """Of sharded weights, which only the ranks together have."""
        self.parts = parts_in(self.observer.torch, value)

    def save_ends(self, name: str, path: Foreign, seconds: float) -> None:
        """A save returned."""
        if self.observer.step:
            step, parts, self.parts = self.observer.step, self.parts[:3], []
            self.observer.records.write(
                "saved", s=step, what=name, path=_text(path), t=seconds, parts=parts,
                positions=self.positions,
            )  # fmt: skip
            self.positions = {}
            self.observer.batches.saved()

    def save_failed(self, name: str, path: Foreign, args: Foreign, error: BaseException) -> None:
        """A save raised an error, which nobody may see where a thread or a future keeps it."""
        self.observer.begin()
        found = of_save(self.observer.torch, error, args[0] if args else None)
        self.observer.records.write(
            "failed", s=self.observer.step, what=name, path=_text(path), **found
        )

    def load_state(self, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
        """nn.Module.load_state_dict: what was missing or unexpected, and nobody was told."""

        def load_state_dict(*args: Foreign, **kwargs: Foreign) -> Foreign:
            result = original(*args, **kwargs)
            self.observer.safely(self.loaded, args, result)
            return result

        return load_state_dict

    def restore(self, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
        """accelerator.load_state(), which restores what was prepared before, and says nothing."""

        def load_state(*args: Foreign, **kwargs: Foreign) -> Foreign:
            if not getattr(args[0], "_models", True):
                self.observer.safely(self.unprepared)
            return original(*args, **kwargs)

        return load_state

    def unprepared(self) -> None:
        """A state was to be loaded into nothing."""
        self.observer.begin()
        self.observer.records.write("unprepared", s=self.observer.step)

    def loaded(self, args: Foreign, result: Foreign) -> None:
        """A module took a state."""
        self.observer.loads += 1
        missing = [str(key) for key in getattr(result, "missing_keys", ())]
        unexpected = [str(key) for key in getattr(result, "unexpected_keys", ())]
        state: Foreign = args[1] if len(args) > 1 and hasattr(args[1], "items") else {}
        self.observer.begin()
        self.observer.records.write(
            "load", s=self.observer.step, module=type(args[0]).__name__, given=len(state),
            missing=missing[:5], unexpected=unexpected[:5], missed=len(missing),
            extra=len(unexpected), narrow=_narrow(self.observer.torch, state, args[0]),
        )  # fmt: skip


def positions_in(value: Foreign) -> Dict[str, str]:
    """What a checkpoint says of how far the data are read: the entries whose keys say so, where
    they are a number or a dict of few things, as text."""
    found: Dict[str, str] = {}
    for key, each in list(value.items()) if type(value) is dict else []:
        few = type(each) is int or (isinstance(each, dict) and 0 < len(each) <= FEW)
        if isinstance(key, str) and POSITION.search(key) and few:
            text = repr(each)
            if len(text) <= MOST_TEXT:
                found[key[:100]] = text
    return found


def _text(path: Foreign) -> str:
    """A path as text; "" for what is none."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
    return os.path.abspath(text)[:2000] if isinstance(text, str) and text else ""


def _narrow(torch: Foreign, state: Foreign, module: Foreign) -> str:
    """A floating-point dtype in the state of fewer bits than the weight that takes it."""
    for name, parameter in module.named_parameters():
        dtypes = [getattr(state.get(name), "dtype", None), parameter.dtype]
        if all(dtype is not None and dtype.is_floating_point for dtype in dtypes):
            given, own = (torch.finfo(dtype).bits for dtype in dtypes)
            if given < own:
                return str(dtypes[0]).replace("torch.", "")
    return ""


def _constant(value: Foreign) -> Callable[[Foreign], Foreign]:
    return lambda _: value
