"""Runs the trials in a fork: what they change, count or log there does not reach the training.

The fork has one thread and no network of Python; it is killed when its time is over.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from typing import Any, Callable, Dict, List, Tuple

import torch

from ... import wire
from ..foreign import Foreign
from ..subject.training_step import Subject
from . import (
    axes,
    broadcasts,
    evaluation,
    functions,
    last_batch,
    parts,
    penalties,
    rounding,
    samples,
    tokens,
)

SECONDS = 20.0
TRIALS: Tuple[Tuple[str, Callable[[Subject], Dict[str, Any]]], ...] = (
    ("broadcasts", broadcasts.trial),
    ("samples", samples.trial),
    ("tokens", tokens.trial),
    ("axes", axes.trial),
    ("functions", functions.trial),
    ("evaluation", evaluation.trial),
    ("parts", parts.trial),
    ("penalties", penalties.trial),
    ("last batch", last_batch.trial),
    ("rounding", rounding.trial),  # the last one: it converts the model
)
"""Name -> what it observes: {"applies": False, "reason": ...}, or {"applies": True, "found": kind
or "", "operation": ..., "place": ...}."""
LARGEST = 1 << 20
"""Bytes of an answer."""


def run(subject: Subject, device: torch.device) -> List[Dict[str, Any]]:
    """One record per trial, as doctor.facts.own_model.Trial."""
    if device.type != "cpu":
        reason = "a process with a %s context cannot be copied" % device.type
        return [{"name": name, "applies": False, "reason": reason} for name, _ in TRIALS]
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _in_fork(subject, writer)
    os.close(writer)
    try:
        return _read(reader)
    finally:
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)


def _in_fork(subject: Subject, writer: int) -> None:
    """Write one line per trial, and end the process without any handler of the user's."""
    try:
        wire.report_to(os.open(os.devnull, os.O_WRONLY))
        torch.set_num_threads(1)  # the threads of the parent do not exist here
        sockets: Foreign = socket.socket
        sockets.connect = sockets.connect_ex = _refused
        modes = [(module, module.training) for module in subject.module.modules()]
        for name, trial in TRIALS:
            for module, training in modes:
                module.training = training
            try:
                record = trial(subject)
            except Exception as error:
                record = {"applies": False, "reason": wire.describe(error)[:200]}
            wire.send_to(writer, {"name": name, **record})
    finally:
        os._exit(0)


def _refused(*args: Foreign) -> Foreign:
    raise OSError("the trials of the doctor have no network")


def _read(reader: int) -> List[Dict[str, Any]]:
    deadline, data = time.monotonic() + SECONDS, b""
    reason = "no answer within %g s" % SECONDS
    while len(data) < LARGEST:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            break
        part = os.read(reader, 65536)
        if not part:
            reason = "the process ended"
            break
        data += part
    records = [wire.decoded(line) for line in data.split(b"\n")[:-1]]
    names = {record["name"] for record in records}
    missing = [name for name, _ in TRIALS if name not in names]
    return records + [{"name": n, "applies": False, "reason": reason} for n in missing]
