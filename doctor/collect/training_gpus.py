"""NVML while a training runs: what slows its GPUs down, and which errors their driver reports."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec
from msgspec import structs

from doctor._util.records import Unknown
from doctor.collect.background import background
from doctor.collect.children import Children, read
from doctor.collect.gpus import Watch
from doctor.facts.load import Use, Watched
from doctor.facts.machine import Gpu
from doctor.facts.views import visible_gpus

LIST_SECONDS = 60.0
SAMPLE_SECONDS = 5.0
END_SECONDS = 2.0
"""How long the end of the training waits for a driver that has not listed its GPUs yet."""
NO_RECORD = Unknown(reason="the training ended before the driver had listed its GPUs")


class TrainingGpus(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that the training may use; None where there is none.

    Counters are differences between the start and the end; everything else is sampled every 5 s.
    """

    gpus: tuple[Gpu, ...] | Unknown | None = None
    watched: tuple[Watched, ...] | Unknown | None = None


class GpuSampler:
    """Samples in a process of its own, which a hung driver does not outlive.

    The training does not wait for it: the driver is asked while the program starts.
    """

    def __init__(self, mark: str = "") -> None:
        """`mark`: in the environment of the training's processes; "": their use is not sampled."""
        self._mark = mark
        self._children = Children()
        self._watch: Watch | None = None
        self._use: Watch | None = None
        self._listed = background(self._start)

    def _start(self) -> tuple[Gpu, ...] | Unknown | None:
        answer = self._children.run_probe("nvml", seconds=LIST_SECONDS)
        gpus = read(answer, "gpus", tuple[Gpu, ...])
        if isinstance(gpus, Unknown):
            return gpus if _has_device() else None
        visible = visible_gpus(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
        listed = tuple(gpu.nvml for gpu in visible if gpu.nvml is not None)
        uuids = [gpu.uuid for gpu in listed if gpu.uuid]
        self._watch = Watch(self._children, uuids, SAMPLE_SECONDS)
        if self._mark:
            self._use = Watch(self._children, uuids, SAMPLE_SECONDS, "gpu_use", (self._mark,))
        return listed or None

    def stop(self) -> TrainingGpus:
        """The records; bounded in time, and no process is left."""
        try:
            gpus = self._listed.result(END_SECONDS)
            watched = self._watch.stop(NO_RECORD) if self._watch is not None else None
            use = self._use.stop(NO_RECORD) if self._use is not None else None
        except TimeoutError:
            gpus, watched, use = NO_RECORD if _has_device() else None, None, None
        finally:
            self._children.interrupt()
            with contextlib.suppress(TimeoutError):
                self._listed.result(END_SECONDS)  # which waits for the killed process
        return TrainingGpus(gpus=gpus, watched=_with_use(watched, use))


def _with_use(
    watched: tuple[Watched, ...] | Unknown | None, use: tuple[Watched, ...] | Unknown | None
) -> tuple[Watched, ...] | Unknown | None:
    """The records of the counters, each with that of the same GPU's use."""
    if not isinstance(watched, tuple) or use is None:
        return watched
    if isinstance(use, Unknown):
        unread = dict.fromkeys(("memory", "processes"), use.reason)
        return tuple(structs.replace(each, use=Use(samples=0, unread=unread)) for each in watched)
    by_uuid = {each.uuid: each.use for each in use}
    return tuple(structs.replace(each, use=by_uuid.get(each.uuid)) for each in watched)


def _has_device() -> bool:
    """Whether the machine has an NVIDIA GPU, so that NVML's silence says something."""
    return any(Path("/dev").glob("nvidia[0-9]*"))


def encode(gpus: TrainingGpus) -> bytes:
    """As JSON, for the directory of the records."""
    return msgspec.json.encode(gpus)


def decode(data: bytes) -> TrainingGpus:
    """From an untrusted file; without GPUs where it is not valid."""
    kind: object = TrainingGpus
    try:
        found: TrainingGpus = msgspec.json.decode(data, type=kind)
        return found
    except msgspec.DecodeError:
        return TrainingGpus()
