"""Steps, saves, loads and evaluations of the training in this process, as they happen.

More may be done here than in a guarded training, which is paid for: the rehearsal is short, and the
time of hashing is left out of that of the steps.
"""

from __future__ import annotations

import atexit
import os
import resource
import signal
import threading
import time
import weakref
from types import ModuleType
from typing import Callable, List, MutableMapping, Set, Tuple

from ..counts import rank_and_world
from ..dynamo import without_frames
from ..foreign import Foreign
from ..last_error import last_error, text_of, uncaught
from ..patches import Patches
from ..session import REGISTRY
from ..switch import raise_of_a_signal
from ..writer import say
from . import asked
from .arithmetic import Arithmetic
from .batches import Batches
from .collectives import Collectives
from .ending import where_it_ended
from .evaluations import Evaluations
from .exchanged import Exchanged
from .failures import Threads
from .graphs import LOOKS, Graphs
from .handlers import Wakeup, handlers, lost_flags
from .loaders import Loaders
from .numbers import Numbers
from .records import Records
from .saves import Saves
from .settings import Settings
from .state import frozen_weights, gradients, in_memory, snapshot

COMPARED = (1, 4)
"""Steps after which the ranks' weights are compared."""
MOST_HASHED = 40
"""Snapshots of a process."""
FULL_UNTIL = 2000
"""Steps that are all recorded; then one in 100."""
WAIT_SECONDS, AFTER_SIGNAL_SECONDS = 60.0, 1.0
"""For the signal of stage 5, and what it may take to arrive through a launcher."""
MOST_TEXT = 900
"""Characters of a message."""
MOST_LACKING = 20
"""Names of weights without a gradient."""


class Observer:
    """What is recorded of one process."""

    def __init__(self, torch: ModuleType, settings: Settings) -> None:
        self.torch = torch
        self.settings = settings
        self.records = Records(settings.records)
        self.patches = Patches()
        self.evaluations = Evaluations(torch, self)
        self.exchanged = Exchanged(torch, self.records)
        self.arithmetic = Arithmetic(torch, self.records)
        self.graphs = Graphs(torch)
        self.wakeup = Wakeup(self.records)
        self.loaders = Loaders(torch, self, self.backwards)
        self.numbers = Numbers(torch, self)
        self.step = 0
        self.counts: MutableMapping[Foreign, int] = weakref.WeakKeyDictionary()
        """Of each optimizer: one for each fold may have the place in memory of the one before."""
        self.leader: Callable[[], Foreign] = lambda: None
        self.leaders = 0
        """The optimizer that took the newest step, and how often it became another one."""
        self.stepping: List[int] = []
        """Optimizers in their step: one may step another, as ZeroRedundancyOptimizer does, whose
        weights are whole only at its own end."""
        self.hashed: Set[str] = set()
        self.passed = 0
        """Backward passes until the last step began."""
        self.passes = 0
        """Backward passes until the last step of any optimizer."""
        self.loads, self.at_start = 0, (0, 0)
        self.own_seconds = 0.0
        """Spent in hashing and waiting since the last step."""
        self.last_step = 0.0
        self.rank, self.world = 0, 1
        self.thread = 0
        """That takes the steps."""
        self.alive = True
        self.of_handler = 0
        """The id of the error that came while it waited for the signal."""
        self.called = False
        """A module was called to train."""
        self.batches = Batches(torch, self)

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
            raise_of_a_signal(error)
            if id(error) == self.of_handler:
                self.of_handler = 0
                raise
            self.alive = False
            self.records.write("broken", text=repr(error)[:500])
            say(f"the rehearsal no longer observes this process: {error!r}")

    def close(self) -> None:
        """The last records, when the process ends."""
        if self.records.is_open:
            error = uncaught()
            self.safely(self.evaluations.end if error is None else self.evaluations.died, error)
            self.write_memory()
            end = {**last_error(), **where_it_ended(self.torch)}
            if error is not None:
                end["dtypes"] = self.exchanged.dtypes()
                end["grad_off"] = not self.torch.is_grad_enabled()
            self.records.write("end", s=self.step, **end)
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
        self.evaluations.end(optimizer=optimizer)
        if "start" in self.hashed and not self.step and self.restorable() != self.at_start:
            self.hashed.discard("start")
        self.hash_state("late", once=True)
        self.thread = threading.get_ident()
        self.exchanged.goes_on(self.step, self.evaluations.count)
        count = self.counts.get(optimizer, 0) + 1
        if count == 1:
            self.begin_steps()
        rates = [group.get("lr") for group in optimizer.param_groups]
        if count > self.step:
            self.leads(optimizer)
            self.loaders.step(count)
            now = time.monotonic()
            seconds = now - self.last_step - self.own_seconds if self.last_step else None
            self.last_step, self.own_seconds = now, 0.0
            self.arithmetic.end()
            passes, self.passed = self.backwards() - self.passed, self.backwards()
            waited, self.loaders.waited = self.loaders.waited, 0.0
            numbers = self.numbers.step()
            if count <= FULL_UNTIL or count % 100 == 0:
                rates = [float(r) for r in rates if isinstance(r, (int, float)) or r is not None]
                self.records.write(
                    "step", s=count, t=seconds, rates=rates, waited=waited, passes=passes,
                    numbers=numbers, leader=self.leaders,
                )  # fmt: skip
            self.wakeup.look(count)
            if count == self.settings.stop_at:
                self.wait_for_signal(count)

    def leads(self, optimizer: Foreign) -> None:
        """This optimizer takes the newest step."""
        if self.leader() is not optimizer:
            self.leader, self.leaders = weakref.ref(optimizer), self.leaders + 1

    def begin_steps(self) -> None:
        """The first step of an optimizer."""
        if self.world > 1:
            tensors, lacking = gradients(self.torch)
            self.records.write("gradients", tensors=tensors, lacking=lacking[:MOST_LACKING])
        for name, value in asked.settings() if not self.step else ():
            self.records.write("asks", name=name, value=value)

    def after_step(self, optimizer: Foreign, args: Foreign, kwargs: Foreign) -> None:
        """optimizer.step() returned."""
        outermost = self.stepping == [id(optimizer)]
        del self.stepping[-1:]
        if not outermost or not self.trains():
            return
        self.counts[optimizer] = count = self.counts.get(optimizer, 0) + 1
        self.passes = self.backwards()
        if count <= self.step:
            return
        self.step = count
        self.exchanged.stepped(optimizer)
        if self.settings.counts:
            self.arithmetic.begin(count, optimizer)
        if self.world > 1 and count in (*COMPARED, *self.settings.hashed):
            self.hash_state("step")
        if self.step in (1, 2, 5) or self.step % 10 == 0:
            self.write_memory()
        if self.step in LOOKS:
            self.count_graphs()

    def trains(self) -> bool:
        """Whether the training has begun: torch.distributed.checkpoint steps an optimizer before,
        so that it has a state into which it can load."""
        if not self.called:
            self.called = not hasattr(self.torch, REGISTRY) or self.backwards() > 0
        return self.called

    def backwards(self) -> int:
        """Backward passes until now, as the guard counts them."""
        session = getattr(self.torch, REGISTRY, None)
        return session.watch.steady.backwards if session is not None else 0

    def wait_for_signal(self, step: int) -> None:
        """Stay in the middle of this step until the signal has been sent; rank 0 alone."""
        if self.rank:
            self.records.write("handles", handlers=handlers())
            return
        began = time.monotonic()
        frozen = frozen_weights(self.torch)
        self.records.write(
            "paused", s=step, handlers=handlers(), lost_flags=lost_flags(), frozen=frozen
        )
        self.wakeup.listen()
        try:
            while not os.path.exists(self.settings.go) and time.monotonic() - began < WAIT_SECONDS:
                time.sleep(0.02)
            time.sleep(AFTER_SIGNAL_SECONDS)
        except BaseException as error:  # the observer raises none here
            self.of_handler = id(error) if isinstance(error, Exception) else 0
            found = {"error": type(error).__name__, "message": text_of(error)[:MOST_TEXT]}
            self.records.write("signalled", s=step, reached=True, **found)
            raise
        self.wakeup.end(step)
        self.own_seconds += time.monotonic() - began

    # State

    def restorable(self) -> Tuple[int, int]:
        """States that modules have loaded, and parameters with a state of an optimizer: they are
        more at the first step where a pass came before the checkpoint was loaded."""
        optimizers = in_memory(self.torch)["optimizer"]
        return self.loads, sum(len(vars(each).get("state", ())) for each in optimizers)

    def hash_state(self, when: str, once: bool = False, **how: Foreign) -> None:
        """Record a snapshot, with `how` it was taken; one for each step and occasion."""
        key = when if once else f"{when} {self.step} {' '.join(k for k in how if how[k])}".rstrip()
        if (once and {"start", "late"} & self.hashed) or key in self.hashed:
            return
        if len(self.hashed) >= MOST_HASHED:
            return
        self.hashed.add(key)
        if when == "start":
            self.at_start = self.restorable()
        began = time.monotonic()
        held = snapshot(self.torch)
        seconds = time.monotonic() - began
        self.own_seconds += seconds
        self.records.write("snapshot", when=when, s=self.step, seconds=seconds, **held, **how)

    def count_graphs(self) -> None:
        """Record the tensors whose graphs are still in memory, and the bytes in use."""
        began = time.monotonic()
        found = self.graphs.look()
        self.records.write("kept", s=self.step, used=self.evaluations.in_use(), **found)
        self.own_seconds += time.monotonic() - began

    def write_memory(self) -> None:
        """Peaks so far, in bytes."""
        cuda = self.torch.cuda
        peak = {}
        if cuda.is_initialized():
            properties = cuda.get_device_properties(cuda.current_device())
            peak = {
                "gpu": properties.name,
                "allocated": cuda.max_memory_allocated(),
                "reserved": cuda.max_memory_reserved(),
                "total": properties.total_memory,
            }
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self.records.write("memory", s=self.step, resident=resident, **peak)


def install(torch: ModuleType, settings: Settings) -> None:
    """Observe this process until it ends."""
    observer = Observer(torch, settings)
    patches = observer.patches
    from torch.optim import optimizer as module

    before = without_frames(torch, lambda *args: observer.safely(observer.before_step, *args))
    after = without_frames(torch, lambda *args: observer.safely(observer.after_step, *args))
    module.register_optimizer_step_pre_hook(lambda *args: before(*args))
    module.register_optimizer_step_post_hook(lambda *args: after(*args))
    Saves(observer).install(torch, patches)
    observer.evaluations.install(patches)
    observer.loaders.install(patches)
    observer.numbers.install(patches)
    Collectives(torch, settings.records).install()
    observer.batches.watch()
    Threads(observer).install()
    atexit.register(observer.close)
    if hasattr(signal, "SIGRTMIN"):
        import faulthandler

        path = os.path.join(settings.records, f"frames-{os.getpid()}.txt")
        faulthandler.register(signal.SIGRTMIN + 7, open(path, "w"), all_threads=True)  # noqa: SIM115
