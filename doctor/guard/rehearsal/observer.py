"""Steps, saves, loads and evaluations of the training in this process, as they happen.

More may be done here than in a guarded training, which is paid for: the rehearsal is short, and the
time of hashing is left out of that of the steps.
"""

from __future__ import annotations

import atexit
import functools
import os
import resource
import signal
import sys
import time
from types import ModuleType
from typing import Callable, Dict, List, Set

from ..counts import rank_and_world
from ..dynamo import without_frames
from ..foreign import Foreign
from ..last_error import last_error
from ..patches import Patches
from ..session import REGISTRY
from ..writer import say
from .audit import installed
from .evaluations import Evaluations
from .imports import after_import
from .records import Records
from .settings import Settings
from .state import hash_of, in_memory, snapshot

COMPARED = (1, 4)
"""Steps after which the ranks' weights are compared."""
MOST_HASHED = 40
"""Snapshots of a process."""
FULL_UNTIL = 2000
"""Steps that are all recorded; then one in 100."""
WAIT_SECONDS, AFTER_SIGNAL_SECONDS = 60.0, 1.0
"""For the signal of stage 5, and what it may take to arrive through a launcher."""
FIRST_TRIES = 50
"""Calls of modules at which the start of the training is looked for."""


class Observer:
    """What is recorded of one process."""

    def __init__(self, torch: ModuleType, settings: Settings) -> None:
        self.torch = torch
        self.settings = settings
        self.records = Records(settings.records)
        self.patches = Patches()
        self.evaluations = Evaluations(torch, self)
        self.step = 0
        self.counts: Dict[int, int] = {}
        self.stepping: List[int] = []
        """Optimizers in their step: one may step another, as ZeroRedundancyOptimizer does, whose
        weights are whole only at its own end."""
        self.hashed: Set[str] = set()
        self.own_seconds = 0.0
        """Spent in hashing and waiting since the last step."""
        self.last_step = 0.0
        self.saving = 0
        self.rank, self.world = 0, 1
        self.alive = True
        self.called = False
        """A module was called to train."""
        self.audit = installed()

    # Beginning and end

    def begin(self) -> bool:
        """Open the records at the first thing to record."""
        if not self.records.is_open:
            self.rank, self.world = rank_and_world(self.torch)
            self.records.open(self.rank, self.world)
        return True

    def safely(self, action: Callable[..., Foreign], *arguments: Foreign) -> None:
        """An error of the observer ends the observing, with one line."""
        if not self.alive:
            return
        try:
            action(*arguments)
        except Exception as error:
            self.alive = False
            self.records.write("broken", text=repr(error)[:500])
            say(f"the rehearsal no longer observes this process: {error!r}")

    def close(self) -> None:
        """The last records, when the process ends."""
        if self.records.is_open:
            error = getattr(sys, "last_value", None)
            self.safely(self.evaluations.end if error is None else self.evaluations.died, error)
            self.write_memory()
            self.records.write("end", s=self.step, **last_error())
            self.records.close()

    # Steps

    def before_step(self, optimizer: Foreign, args: Foreign, kwargs: Foreign) -> None:
        """optimizer.step() begins."""
        if id(optimizer) in self.stepping:  # its last step raised
            self.stepping.clear()
        self.stepping.append(id(optimizer))
        if len(self.stepping) > 1 or not self.trains():
            return
        self.begin()
        self.evaluations.end()
        self.hash_state("late", once=True)
        count = self.counts.get(id(optimizer), 0) + 1
        rates = [group.get("lr") for group in optimizer.param_groups]
        if count > self.step:
            now = time.monotonic()
            seconds = now - self.last_step - self.own_seconds if self.last_step else None
            self.last_step, self.own_seconds = now, 0.0
            if count <= FULL_UNTIL or count % 100 == 0:
                rates = [float(r) for r in rates if isinstance(r, (int, float)) or r is not None]
                self.records.write("step", s=count, t=seconds, rates=rates)
            if count == self.settings.stop_at and self.rank == 0:
                self.wait_for_signal(count)

    def after_step(self, optimizer: Foreign, args: Foreign, kwargs: Foreign) -> None:
        """optimizer.step() returned."""
        outermost = self.stepping == [id(optimizer)]
        del self.stepping[-1:]
        if not outermost or not self.trains():
            return
        count = self.counts.get(id(optimizer), 0) + 1
        self.counts[id(optimizer)] = count
        if count <= self.step:
            return
        self.step = count
        if self.world > 1 and count in COMPARED:
            self.hash_state("step")
        if self.step in (1, 2, 5) or self.step % 10 == 0:
            self.write_memory()

    def trains(self) -> bool:
        """Whether the training has begun: torch.distributed.checkpoint steps an optimizer before,
        so that it has a state into which it can load."""
        if not self.called:
            session = getattr(self.torch, REGISTRY, None)
            self.called = session is None or session.watch.steady.backwards > 0
        return self.called

    def wait_for_signal(self, step: int) -> None:
        """Stay in the middle of this step until the signal has been sent."""
        began = time.monotonic()
        self.records.write("paused", s=step)
        while not os.path.exists(self.settings.go) and time.monotonic() - began < WAIT_SECONDS:
            time.sleep(0.02)
        time.sleep(AFTER_SIGNAL_SECONDS)
        self.own_seconds += time.monotonic() - began

    # State

    def hash_state(self, when: str, once: bool = False) -> None:
        """Record a snapshot; one for each step and occasion."""
        key = when if once else f"{when} {self.step}"
        if (once and {"start", "late"} & self.hashed) or key in self.hashed:
            return
        if len(self.hashed) >= MOST_HASHED:
            return
        self.hashed.add(key)
        began = time.monotonic()
        held = snapshot(self.torch)
        seconds = time.monotonic() - began
        self.own_seconds += seconds
        self.records.write("snapshot", when=when, s=self.step, seconds=seconds, **held)

    def write_memory(self) -> None:
        """Peaks so far, in bytes."""
        cuda = self.torch.cuda
        peak = {}
        if cuda.is_initialized():
            peak = {
                "allocated": cuda.max_memory_allocated(),
                "reserved": cuda.max_memory_reserved(),
                "total": cuda.get_device_properties(cuda.current_device()).total_memory,
            }
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self.records.write("memory", s=self.step, resident=resident, **peak)

    # Saves and loads

    def save(
        self, original: Callable[..., Foreign], name: str, place: int
    ) -> Callable[..., Foreign]:
        """A function that saves; its argument at `place` is the path."""

        @functools.wraps(original)
        def saving(*args: Foreign, **kwargs: Foreign) -> Foreign:
            if self.saving or not self.alive:
                return original(*args, **kwargs)
            self.saving += 1
            began = time.monotonic()
            own = self.own_seconds
            try:
                self.safely(self.report_write, name, args[place] if len(args) > place else None)
                self.safely(self.save_begins)
                result = original(*args, **kwargs)
            finally:
                self.saving -= 1
            seconds = time.monotonic() - began - (self.own_seconds - own)
            self.safely(self.save_ends, name, args[place] if len(args) > place else None, seconds)
            return result

        return saving

    def report_write(self, name: str, path: Foreign) -> None:
        """A path that C++ or Rust will open, which raises no audit event."""
        audit = self.audit
        if audit is not None and isinstance(path, (str, os.PathLike)):
            audit.wrote(name, os.path.abspath(os.fspath(path)))

    def save_begins(self) -> None:
        """The state that this save should hold."""
        if self.step:
            self.begin()
            self.evaluations.end()
            self.hash_state("save")

    def save_ends(self, name: str, path: Foreign, seconds: float) -> None:
        """A save returned."""
        if self.step:
            text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
            text = os.path.abspath(text) if isinstance(text, str) and text else ""
            self.records.write("saved", s=self.step, what=name, path=text[:2000], t=seconds)

    def load_state(self, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
        """nn.Module.load_state_dict: what was missing or unexpected, and nobody was told."""

        @functools.wraps(original)
        def load_state_dict(*args: Foreign, **kwargs: Foreign) -> Foreign:
            result = original(*args, **kwargs)
            self.safely(self.loaded, args, result)
            return result

        return load_state_dict

    def loaded(self, args: Foreign, result: Foreign) -> None:
        """A module took a state."""
        missing = [str(key) for key in getattr(result, "missing_keys", ())]
        unexpected = [str(key) for key in getattr(result, "unexpected_keys", ())]
        given = len(args[1]) if len(args) > 1 and hasattr(args[1], "__len__") else 0
        self.begin()
        self.records.write(
            "load", s=self.step, module=type(args[0]).__name__, given=given, missing=missing[:5],
            unexpected=unexpected[:5], missed=len(missing), extra=len(unexpected),
        )  # fmt: skip

    # The first call of a module in training

    def watch_first_call(self) -> None:
        """Record the state just before the first forward pass of the training."""
        kind = self.torch.nn.Module
        original = kind.__call__
        tries = 0

        def restore() -> None:
            if kind.__dict__.get("__call__") is first:
                kind.__call__ = original

        def first(module: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
            nonlocal tries
            if module.training and self.torch.is_grad_enabled() and not self.hashed:
                tries += 1
                self.called = True
                self.safely(self.try_start, module, args, kwargs)
            if self.hashed or tries >= FIRST_TRIES or not self.alive:
                restore()
            return original(module, *args, **kwargs)

        kind.__call__ = first

    def try_start(self, module: Foreign, args: Foreign, kwargs: Foreign) -> None:
        """The start and the first batch, if an optimizer holds this module's parameters."""
        parameters = {id(p) for p in module.parameters()}
        if not parameters:
            return
        for each in in_memory(self.torch)["optimizer"]:
            groups = getattr(each, "param_groups", None) or ()
            if any(id(p) in parameters for group in groups for p in group["params"]):
                self.begin()
                self.hash_state("start", once=True)
                batch = hash_of(self.torch, (*args, *kwargs.values()))
                self.records.write("batch", tensors=batch)
                return


def install(torch: ModuleType, settings: Settings) -> None:
    """Observe this process until it ends."""
    observer = Observer(torch, settings)
    patches = observer.patches
    from torch.optim import optimizer as module

    before = without_frames(torch, lambda *args: observer.safely(observer.before_step, *args))
    after = without_frames(torch, lambda *args: observer.safely(observer.after_step, *args))
    module.register_optimizer_step_pre_hook(lambda *args: before(*args))
    module.register_optimizer_step_post_hook(lambda *args: after(*args))
    for owner in (torch, torch.serialization):
        patches.replace(owner, "save", lambda original: observer.save(original, "torch.save", 1))
    patches.replace(torch.nn.Module, "load_state_dict", observer.load_state)
    observer.evaluations.install(patches)
    observer.watch_first_call()
    after_import(
        {
            "safetensors.torch": lambda found: patches.replace(
                found, "serialize_file", lambda f: observer.save(f, "safetensors", 1)
            ),
            "torch.distributed.checkpoint": lambda found: _checkpoints(found, observer, patches),
        }
    )
    atexit.register(observer.close)
    if hasattr(signal, "SIGRTMIN"):
        import faulthandler

        path = os.path.join(settings.records, f"frames-{os.getpid()}.txt")
        faulthandler.register(signal.SIGRTMIN + 7, open(path, "w"), all_threads=True)  # noqa: SIM115


def _checkpoints(package: Foreign, observer: Observer, patches: Patches) -> None:
    module = sys.modules[package.__name__ + ".state_dict_saver"]
    for name in ("save", "async_save"):
        original = vars(module).get(name)
        if original is None:
            continue
        wrapped = observer.save(original, f"torch.distributed.checkpoint.{name}", 1)
        for owner in (package, module):
            if vars(owner).get(name) is original:
                patches.replace(owner, name, _constant(wrapped))


def _constant(value: Foreign) -> Callable[[Foreign], Foreign]:
    return lambda _: value
