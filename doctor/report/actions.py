"""What a program may do about a finding: the doctor's command lines as lists of words.

A command line becomes an action only where a row of `ROWS` matches all of it, so that no text of a
machine, a log or a facts file becomes a word: versions, numbers, UUIDs and addresses have patterns
of their own. What no row matches stays prose, in the finding's `commands`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from doctor.judge.check import PIP, Finding, Owner, Status

Kind = Literal["look", "install", "set-env", "edit", "run", "return"]
Needs = Literal["nothing", "root", "network", "restart", "provider"]
"""Rights or events: restart is that of the training, with the new environment."""
Safe = Literal["never", "look", "apply"]
"""look: changes nothing. apply: changes what the user can undo. never: ask first."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do. `argv` is for exec, never for a shell; () where no program does it."""

    kind: Kind
    argv: tuple[str, ...]
    needs: Needs
    safe: Safe
    env: dict[str, str | None] = {}
    """set-env: variables to set before the training starts; null: to remove. run: for it."""
    statement: str = ""
    """edit: a line of Python for the start of the training script."""


class Row(NamedTuple):
    """A form of command lines; where the pattern has a group, the words are in it."""

    pattern: str
    kind: Kind
    needs: Needs = "nothing"
    safe: Safe = "look"


VERSION = r"\d{1,4}(?:\.\d{1,6}){0,4}(?:\.\*)?"
UUID = r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
VARIABLE = (
    r"(?:CUDA|CUBLAS|NCCL|NVIDIA|TORCH|PYTORCH|TRITON|HF|WANDB|OMP|TOKENIZERS)_[A-Z0-9_]{1,60}"
)
INDEX = r"https://download\.pytorch\.org/whl/(?:cpu|xpu|cu\d{2,3}|rocm\d\.\d)"
PACKAGES = "torch|torchvision|torchaudio|nvidia-cublas-cu12"
"""What remedies install."""
ROWS = (
    Row(r"nvidia-smi(?: -L| topo -m| nvlink --status)?", "look"),
    Row(r"nvidia-smi -q -d [A-Z_,]{1,80}", "look"),
    Row(r"ibstat", "look"),
    Row(r"chronyc tracking", "look"),
    Row(r"(sudo lspci -vv -d 10de:) \| grep [A-Za-z]{1,20}", "look", "root"),
    Row(r"(nvidia-smi -q) \| grep [A-Za-z0-9 '-]{1,80}", "look"),
    Row(r"nvidia-smi --query-compute-apps=[a-z_,]{1,80} --format=csv", "look"),
    Row(
        rf"sudo nvidia-smi -i (?:\d{{1,3}}|{UUID}) (?:-c DEFAULT|--gpu-reset)",
        "run",
        "root",
        "never",
    ),
    Row(r"(sudo dmesg(?: -T)?) \| grep -iE '[a-z |]{1,80}'", "look", "root"),
    Row(r"doctor triage train\.log", "look"),
    Row(r"findmnt --target \.", "look"),
    Row(r"(ldconfig -p) \| grep (?:-E '[A-Za-z|-]{1,80}'|libcuda\.so\.1)", "look"),
    Row(r"(python -m pip list) \| grep -i nccl", "look"),
    Row(r"df -(?:h|i|hi)(?: (?:\.|/tmp|/dev/shm)){0,3}", "look"),
    Row(r"free -g|nvcc --version|hf cache scan|hf auth whoami|python -m bitsandbytes", "look"),
    Row(r"cat /sys/fs/cgroup/(?:memory\.events|pids\.max)", "look"),
    Row(r"python -m pip show torch transformers", "look"),
    Row(
        r'python -c "import torch; print\(torch\.(?:version\.cuda|cuda\.get_arch_list\(\)'
        r'|__version__, torch\.cuda\.is_available\(\))\)"',
        "look",
    ),
    Row(
        r"python -m pip install (?:--force-reinstall )?(?:--no-deps )?"
        rf'"?(?:{PACKAGES})(?:=={VERSION})?"?'
        rf"(?: --index-url {INDEX})?",
        *("install", "network", "never"),
    ),
    Row(r"doctor run --(?:only [A-Z]{3}\d{3}(?:,[A-Z]{3}\d{3}){0,9}|precision fp32)", "run"),
)
EXPORT = re.compile(rf"export ({VARIABLE})=([A-Za-z0-9_./:-]{{0,80}})")
UNSET = re.compile(rf"unset ({VARIABLE})")
WITH = re.compile(rf"({VARIABLE})=([A-Za-z0-9_./:-]{{0,80}}) doctor run")
STATEMENT = re.compile(r'torch\.[a-z0-9_.]{1,60}\((?:True|False|"high")\)')
PATH = re.compile(r"[~/][^\x00-\x1f\x7f]{0,1000}|python[0-9.]{0,5}")
MOST_FILES = 20
"""Scripts that a finding has an action for."""


def actions_of(finding: Finding) -> tuple[Action, ...]:
    """What to do about a warning or failure, in order; () where everything is prose."""
    if not finding.is_problem or finding.injected or finding.ignored:
        return ()
    lines = (*_in_fix(finding), *(finding.verdict.commands or finding.check.commands))
    found = [action for line in lines if (action := _action(line, finding)) is not None]
    return (*found, *_edits(finding), *_returns(finding))


def labelled(finding: Finding) -> tuple[tuple[Kind | None, str], ...]:
    """The finding's commands as reports print them, each with its kind; None: for people only."""
    lines = finding.verdict.commands or finding.check.commands
    actions = (_action(line, finding) for line in lines)
    kinds = [action.kind if action else None for action in actions]
    named = [(action.kind, line) for line in _in_fix(finding) if (action := _action(line, finding))]
    return (*named, *(zip(kinds, finding.commands, strict=True) if finding.commands else ()))


def _in_fix(finding: Finding) -> tuple[str, ...]:
    """Commands that stand in the check's own fix, between its sentences."""
    if not finding.is_problem or finding.injected or finding.verdict.fix:
        return ()
    lines = finding.check.fix.split("\n")[1:]
    others = finding.verdict.commands or finding.check.commands
    return tuple(each for each in lines if each not in others and _action(each, finding))


def _action(line: str, finding: Finding) -> Action | None:
    """The action of a command line, None where no row matches it."""
    if match := EXPORT.fullmatch(line):
        return _set_env({match[1]: match[2]})
    if match := UNSET.fullmatch(line):
        return _set_env({match[1]: None})
    if match := WITH.fullmatch(line):
        env: dict[str, str | None] = {match[1]: match[2]}
        return Action(kind="run", argv=("doctor", "run"), needs="nothing", safe="look", env=env)
    if STATEMENT.fullmatch(line):
        return Action(kind="edit", argv=(), needs="restart", safe="never", statement=line)
    for row in ROWS:
        if match := re.fullmatch(row.pattern, line):
            argv = tuple(shlex.split(match[1] if match.re.groups else line))
            words = _installing(argv, finding) if line.startswith(PIP) else argv
            if words is None:
                return None
            return Action(kind=row.kind, argv=words, needs=row.needs, safe=row.safe)
    return None


def _set_env(env: dict[str, str | None]) -> Action:
    return Action(kind="set-env", argv=(), needs="restart", safe="apply", env=env)


def _installing(argv: tuple[str, ...], finding: Finding) -> tuple[str, ...] | None:
    """The words for the interpreter that was examined. A leading ~ is the home directory."""
    if not PATH.fullmatch(finding.python):
        return None
    if finding.pip:
        return (finding.python, *argv[1:])
    if not finding.uv:  # pip is installed first: two commands
        return None
    return ("uv", "pip", argv[3], "--python", finding.python, *argv[4:])


def _edits(finding: Finding) -> Iterator[Action]:
    """The fix of a lint's finding, for each script that it has edits for."""
    fixed = {place.path: place for place in finding.places if place.edits}
    for path, place in list(fixed.items())[:MOST_FILES]:
        if path.isprintable():
            flags = ("--fix",) if place.edits_are_safe else ("--fix", "--unsafe-fixes")
            argv = ("doctor", "lint", *flags, "--only", finding.check.code, "--", path)
            safe: Safe = "apply" if place.edits_are_safe else "never"
            yield Action(kind="edit", argv=argv, needs="nothing", safe=safe)


def _returns(finding: Finding) -> Iterator[Action]:
    """To give the machine back."""
    is_fault = finding.status is Status.FAIL and finding.owner is Owner.MACHINE
    if is_fault and finding.check.returns:
        yield Action(kind="return", argv=(), needs="provider", safe="never")
