"""What a scan passes on beside its record: directory, tensors, and notes of its progress."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from doctor._util.records import Unknown
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.stages import Stage
from doctor.checkpoint.reader import LayoutContents
from doctor.checkpoint.records import Checkpoint
from doctor.checkpoint.tensors import Shard, Tensor, join_states, slots

Notify = Callable[[dict[str, Any]], None]

NOTE_INTERVAL = 0.1
"""Seconds between two progress notes."""


class TensorCollector:
    """Keeps the directory and the tensors of one scan."""

    directory: Directory | None = None
    """None: only the sizes of the files are known."""
    shards: Sequence[Shard] = ()
    every: Sequence[Shard] = ()
    """With the files of an optimizer's state."""

    def collect(self, directory: Directory, contents: LayoutContents) -> None:
        self.directory, self.shards = directory, contents.shards
        self.every = contents.all_shards

    @property
    def tensors(self) -> Iterator[Tensor]:
        return (tensor for shard in self.shards for tensor in shard.tensors)

    @property
    def further(self) -> list[Tensor]:
        """Tensors of other state_dicts in the files of the weights, and of further modules."""
        return [tensor for shard in self.every for tensor in shard.further]

    @property
    def moments(self) -> list[Tensor]:
        """The optimizer's slots and its copies of the weights."""
        state = join_states(shard.optimizer for shard in self.every)
        return list(slots(state)) if state else []


class ProgressThrottle:
    """Progress notes, no more often than NOTE_INTERVAL."""

    def __init__(self, notify: Notify) -> None:
        self.notify = notify
        self.last = 0.0

    def __call__(self, doing: str, done: int, total: int | None, unit: str) -> None:
        now = time.monotonic()
        if now - self.last >= NOTE_INTERVAL or done == total:
            self.last = now
            self.notify({"doing": doing, "done": done, "total": total, "unit": unit})


def counted_stages(stage: Stage, progress: ProgressThrottle) -> Stage:
    """The same stages, with a progress note after each of them."""
    done = 0

    @contextlib.contextmanager
    def counted(name: str) -> Iterator[None]:
        nonlocal done
        with stage(name):
            yield
        done += name.startswith("read ")
        progress(name, done, None, "files")

    return counted


def unread(checkpoint: Checkpoint) -> Unknown:
    """No tensors were listed."""
    return Unknown(reason=checkpoint.not_inspectable or "no header could be read")
