"""torch imports in the training environment."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import PurePosixPath

from doctor._util.records import Ended, Unknown
from doctor._util.versions import unreadable_versions
from doctor.checks.torch_build.libraries import other_cudnn, written_twice
from doctor.checks.torch_build.replacement import JETSON_LIBRARIES, Replacement, replace_torch
from doctor.errors.fitted import fitted
from doctor.errors.match import first, row
from doctor.facts.host import Host
from doctor.facts.interpreter import Interpreter, Torch
from doctor.facts.machine import Driver
from doctor.facts.views import JobGpus
from doctor.job.job import Target
from doctor.judge.check import Check, Owner, Verdict, fail, ok, unknown, warn
from doctor.judge.known_errors import KILLED, MIXED_CUDNN, fail_by, find_cause

SLOW_IMPORT = 30.0
"""Seconds. A cold import from a local disk takes a few; more means a slow network file system."""

NCCL = row("nccl-two-packages")
IMPORT_ERRORS = (
    *(row(id) for id in ("python-too-old", "module-hidden-by-own-file", "static-tls-block")),
    *(row(id) for id in ("address-space-limit", "host-out-of-memory", "process-limit")),
    row("too-many-open-files"),
    row("nvjitlink-older"),
    NCCL,
    MIXED_CUDNN,
    *(row(id) for id in ("glibc-too-old", "libstdcxx-too-old", "library-does-not-fit")),
)
"""The first that the message or the traceback has counts."""
OF_SYSTEM = re.compile(r"\blib(?:cu\w+|nv\w+|mpi\w*|openblas)\.so|undefined symbol|GLIBC")
"""Libraries that a Jetson has from its system."""
NOT_STARTED = (
    "Name the interpreter that trains with --python. If it is this one, make it start first: "
    "--version must print its version; an environment whose base Python is gone is made anew."
)
JETPACK = ("cat /etc/nv_tegra_release", "apt show nvidia-jetpack | grep Version")


def imports(
    interpreter: Interpreter,
    torch: Torch | Unknown,
    driver: Driver | Unknown | None,
    job_gpus: JobGpus | Unknown,
    host: Host | Unknown,
    target: Target,
) -> Verdict:
    ended = interpreter.importing
    where = f"{interpreter.path} ({interpreter.chosen})"
    if ended.ok:
        return _imported(ended, torch, where)
    if ended.how == "budget":
        return unknown(ended.detail)
    if "No module named 'torch'" in ended.detail:
        wheel = Replacement("", ("python -m pip install torch",))
        is_jetson = isinstance(host, Host) and host.jetson
        if is_jetson:
            wheel = Replacement(JETSON_LIBRARIES, JETPACK)
        elif target.kind == "nvidia" and isinstance(job_gpus, JobGpus) and job_gpus.gpus:
            wheel = replace_torch(torch, driver, job_gpus, host, interpreter)
        fix = "Install torch there, or name the training interpreter with --python."
        return fail(
            f"torch is not installed in {where}",
            *wheel.commands,
            fix=f"{fix} {wheel.fix}".strip(),
            seconds=ended.seconds,
        )
    verdict = _failed(f"import torch {how(ended)} in {where}", interpreter)
    if isinstance(host, Host) and host.jetson and OF_SYSTEM.search(ended.detail):
        verdict = replace(verdict, fix=JETSON_LIBRARIES, commands=JETPACK)
    return replace(verdict, seconds=ended.seconds)


def _imported(ended: Ended, torch: Torch | Unknown, where: str) -> Verdict:
    if isinstance(torch, Torch) and (reason := unreadable_versions({"torch": torch.version})):
        return unknown(f"torch imports in {where}, and {reason}", seconds=ended.seconds)
    version = f" {torch.version}" if isinstance(torch, Torch) else ""
    if ended.seconds > SLOW_IMPORT:
        summary = f"import torch{version} took {ended.seconds:.0f} s in {where}"
        return warn(f"{summary}; at most {SLOW_IMPORT:.0f} s required", seconds=ended.seconds)
    return ok(f"torch{version} imports in {where}", seconds=ended.seconds)


def _failed(summary: str, interpreter: Interpreter) -> Verdict:
    """The import raised, crashed or hung."""
    ended = interpreter.importing
    if find_cause(ended) is KILLED:
        return fail_by(KILLED, summary)
    pattern = first(f"{ended.detail}\n{interpreter.traceback}", IMPORT_ERRORS)
    if pattern is NCCL and (twice := written_twice(interpreter, None)):
        verdict = fail_by(NCCL, f"{summary}; {twice.summary}")
        return replace(verdict, commands=(*twice.commands, *NCCL.commands))
    if "libcudnn" in ended.detail and (other := other_cudnn(interpreter)):
        return fail(f"{summary}; {other.summary}", *other.commands, fix=other.fix or "")
    if shadow := _incomplete(interpreter):
        fix = (
            f"Remove {shadow}, or its parent directory from PYTHONPATH: it is found before the "
            "installed torch and lacks parts of it. If no torch is installed, install one."
        )
        return fail(f"{summary}; {shadow} was found first", 'echo "$PYTHONPATH"', fix=fix)
    if pattern:
        return fail_by(fitted(pattern, summary), summary)
    path = shlex.quote(interpreter.path)
    if not interpreter.started:
        summary = f"{interpreter.path} ({interpreter.chosen}) did not start as Python: "
        summary += ended.detail or "no message"
        return fail(summary, f"{path} --version", fix=NOT_STARTED)
    return fail(summary, f"{path} -X faulthandler -c 'import torch'")


def _incomplete(interpreter: Interpreter) -> str | None:
    """The directory of a torch that lacks a module of its own, where no package manager put it."""
    path, detail = interpreter.torch_path, interpreter.importing.detail
    parts = ("No module named 'torch.", "partially initialized module 'torch'", "from 'torch")
    if path is None or not any(part in detail for part in parts):
        return None
    managed = re.search(r"/(?:site|dist)-packages/torch/", path)
    return None if managed else str(PurePosixPath(path).parent)


def how(ended: Ended) -> str:
    """How a call or a process ended, and its message."""
    verb = {"error": "raised", "signal": "crashed", "timeout": "hung"}.get(ended.how, ended.how)
    return f"{verb}: {ended.detail or 'no message'}"


TORCH_IMPORTS = Check(
    code="TOR001",
    slug="torch-imports",
    title="torch imports in the training interpreter",
    why="All further checks use the torch of the training interpreter. A failing import names a "
    "library that is missing or was found in the wrong place; a slow one reads from a slow file "
    "system, and every worker process repeats it.",
    passes=(f"import torch succeeds within {SLOW_IMPORT:.0f} s in the training interpreter",),
    warns=(f"the import takes more than {SLOW_IMPORT:.0f} s",),
    fails=(
        "torch is not installed there",
        "the import raises, crashes or does not return",
        "the interpreter does not start",
    ),
    fix="Reinstall torch together with the packages that it requires. If the import is slow, move "
    "the environment to a local disk.",
    limits="that anything computes: an import uses no GPU.",
    owner=Owner.ENVIRONMENT,
    judge=imports,
    returns=True,
    required="always",
    sources=("ps-U28", "pytorch-install"),
    also=("read",),
)

CHECKS = (TORCH_IMPORTS,)
