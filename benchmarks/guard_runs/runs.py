"""The programs by their names, and a program in a process of its own."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
from pathlib import Path
from typing import Any

from . import (
    architectures,
    distributed,
    faulty_programs,
    faulty_resources,
    healthy_habits,
    libraries,
    loops,
    optimizers,
    public_faults,
    public_healthy,
    trainers,
)
from .models import start_guard

HEALTHY = (optimizers, loops, architectures, trainers, distributed, public_healthy, healthy_habits)
FAULTY = (faulty_programs, faulty_resources, distributed, public_faults)
CLEAN = {run.__name__: run for module in HEALTHY for run in module.CLEAN}
OTHERS = {run.__name__: run for run in libraries.CLEAN}
PUBLIC = [run.__name__ for run in (*public_healthy.CLEAN, *healthy_habits.CLEAN)]
REPORTED = [run.__name__ for _, run in public_faults.FAULTS]
"""The programs after public ones, and the faults that people reported."""
FAULTS = {run.__name__: (code, run) for module in FAULTY for code, run in module.FAULTS}
RANKS = {run.__name__ for run in distributed.CLEAN} | {
    run.__name__ for _, run in distributed.FAULTS
}
"""Runs whose ranks have a guard each."""
PRELOADED = ["torch._dynamo", "transformers.trainer", "transformers.models.llama.modeling_llama"]
"""Imported once, by the process from which each run is forked."""
OUTPUT, ERRORS = "output.txt", "errors.txt"


def follow(digest: Any) -> None:
    """Add the parameters after every step of an optimizer."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                digest.update(parameter.detach().reshape(-1)[:256].float().numpy().tobytes())

    register_optimizer_step_post_hook(after)


def run_one(name: str) -> None:
    """In a process of its own: the run under the guard; alarms as JSON on the last line.

    Last the hash of all parameters after every step and of the random states, with DIGEST.
    """
    import torch

    torch.set_num_threads(1)
    digest = hashlib.sha256()
    if os.environ.get("DIGEST"):
        follow(digest)
    if device := os.environ.get("GUARD_DEVICE"):
        torch.set_default_device(device)
    run = CLEAN.get(name) or OTHERS.get(name) or FAULTS[name][1]
    guard = start_guard() if name not in RANKS else None
    torch.manual_seed(0)
    random.seed(0)
    run()
    if guard is not None:
        guard.close()
    digest.update(bytes(torch.get_rng_state().tolist()) + repr(random.getstate()).encode())
    print(digest.hexdigest() if os.environ.get("DIGEST") else "")


def run_apart(name: str, out: Path, environ: dict[str, str]) -> None:
    """`run_one` in a forked process: what it prints goes to files beside the records."""
    os.environ.update(environ, GUARD_OUT=str(out))
    multiprocessing.set_start_method("fork", force=True)  # as in a program of its own
    for number, file in ((1, OUTPUT), (2, ERRORS)):
        with (out / file).open("w") as stream:
            os.dup2(stream.fileno(), number)
    run_one(name)


def start(name: str, out: Path, **environ: str) -> int:
    """Run it to its end in a process of its own, with these variables; the exit code."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(PRELOADED)
    child = server.Process(target=run_apart, args=(name, out, environ))
    child.start()
    child.join()
    assert child.exitcode is not None
    return child.exitcode
