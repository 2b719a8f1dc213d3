"""torch imports in the training environment."""

from __future__ import annotations

import shlex

from doctor._util.records import Ended, Unknown
from doctor.checks.torch_build.replacement import Replacement, replace_torch
from doctor.facts.machine import Driver, Host, Interpreter, Torch
from doctor.facts.views import JobGpus
from doctor.job.job import Target
from doctor.judge.check import Check, Owner, Verdict, fail, ok, warn
from doctor.judge.error_patterns import (
    KILLED,
    MIXED_CUDNN,
    ErrorPattern,
    fail_by,
    find_pattern,
    match_error,
)

SLOW_IMPORT = 30.0
"""Seconds. A cold import from a local disk takes a few; more means a slow network file system."""

IMPORT_ERRORS = (
    ErrorPattern(
        ("UnsupportedPython",),
        "Name the interpreter that trains with --python: torch 2 requires Python 3.8 or newer.",
    ),
    ErrorPattern(
        ("is not an installed PyTorch",),
        "Another file or directory called torch is found before PyTorch, if that is installed: "
        "rename it, or remove its directory from PYTHONPATH.",
        commands=('echo "$PYTHONPATH"',),
    ),
    ErrorPattern(
        ("static TLS block",),
        "A library was loaded too late for its thread-local memory: preload the one that the error "
        "names with LD_PRELOAD, or import torch before other packages.",
    ),
    ErrorPattern(
        (
            "MemoryError",
            "bad_alloc",
            "Memory allocation still failed",
            "failed to map segment",
            "Cannot allocate memory",
        ),
        "The process may not use enough memory to load torch's libraries: raise its limit of "
        "address space (ulimit -v unlimited) or the memory of the container.",
        commands=("ulimit -v",),
    ),
    ErrorPattern(
        ("can't start new thread", "Resource temporarily unavailable"),
        "The limit of processes is reached: raise it (ulimit -u, or pids.max of the container), or "
        "end other processes of this user.",
        commands=("ulimit -u",),
    ),
    ErrorPattern(
        ("Too many open files",),
        "The limit of open files is reached: raise it (ulimit -n 65536).",
        commands=("ulimit -n",),
    ),
    ErrorPattern(
        ("__nvJitLink",),
        "An older libnvJitLink is found before torch's own: remove its directory from "
        "LD_LIBRARY_PATH, or install torch 2.6 or newer, which loads its own first.",
        sources=("pytorch-134929",),
    ),
    MIXED_CUDNN,
    ErrorPattern(
        ("version `GLIBC_", "version 'GLIBC_"),
        "A library requires a newer C library (glibc) than this system has, and glibc cannot be "
        "upgraded alone: use an image of a newer distribution (Ubuntu 20.04, Debian 11 and RHEL 8 "
        "have 2.28, which wheels of torch since 2.7 require), or an older release of the package "
        "that the error names.",
        commands=("ldd --version",),
        sources=("pytorch-150724",),
    ),
    ErrorPattern(
        ("version `GLIBCXX_", "version `CXXABI_", "version 'GLIBCXX_", "version 'CXXABI_"),
        "An older libstdc++ is found first: remove its directory from LD_LIBRARY_PATH, or install "
        "a newer one in the environment (conda install -c conda-forge libstdcxx-ng).",
        commands=('echo "$LD_LIBRARY_PATH"',),
    ),
    ErrorPattern(
        ("undefined symbol",),
        "Two libraries that were not built for each other were loaded: remove other copies of the "
        "CUDA libraries from LD_LIBRARY_PATH and LD_PRELOAD, then reinstall torch together with "
        "the packages that it requires.",
        sources=("pytorch-134929",),
    ),
    ErrorPattern(
        ("cannot open shared object file",),
        "A library that torch needs is missing: reinstall torch together with the packages that it "
        "requires.",
    ),
)


def imports(
    interpreter: Interpreter,
    torch: Torch | Unknown,
    driver: Driver | Unknown | None,
    job_gpus: JobGpus | Unknown,
    host: Host | Unknown,
    target: Target,
) -> Verdict:
    ended, path = interpreter.importing, shlex.quote(interpreter.path)
    where = f"{interpreter.path} ({interpreter.chosen})"
    if ended.ok:
        version = f" {torch.version}" if isinstance(torch, Torch) else ""
        if ended.seconds > SLOW_IMPORT:
            summary = f"import torch{version} took {ended.seconds:.0f} s in {where}"
            return warn(f"{summary}; at most {SLOW_IMPORT:.0f} s required", seconds=ended.seconds)
        return ok(f"torch{version} imports in {where}", seconds=ended.seconds)
    if "No module named 'torch'" in ended.detail:
        wheel = Replacement("", ("python -m pip install torch",))
        if target.kind == "nvidia" and isinstance(job_gpus, JobGpus) and job_gpus.gpus:
            wheel = replace_torch(torch, driver, job_gpus, host, interpreter)
        fix = "Install torch there, or name the training interpreter with --python."
        return fail(
            f"torch is not installed in {where}",
            *wheel.commands,
            fix=f"{fix} {wheel.fix}".strip(),
            seconds=ended.seconds,
        )
    summary = f"import torch {how(ended)} in {where}"
    pattern = match_error(f"{ended.detail}\n{interpreter.traceback}", IMPORT_ERRORS)
    if find_pattern(ended) is KILLED:
        return fail_by(KILLED, summary, seconds=ended.seconds)
    if pattern:
        return fail_by(pattern, summary, seconds=ended.seconds)
    return fail(summary, f"{path} -X faulthandler -c 'import torch'", seconds=ended.seconds)


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
    fails=("torch is not installed there", "the import raises, crashes or does not return"),
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
