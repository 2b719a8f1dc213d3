"""How the training ended."""

from __future__ import annotations

import re
import signal

from doctor._util.units import shown
from doctor.checks.guard.observed import any_process
from doctor.checks.training.own_errors import possible
from doctor.facts.guard import Guarded, GuardError, GuardStall
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn
from doctor.judge.known_errors import any_of

CODE = "GRD022"
FROM_OUTSIDE = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
"""Signals of a user or a scheduler; a training does not end itself with them."""
OF_LAUNCHER = re.compile(r"Process \d{1,9} got signal: (\d{1,2})$")
"""The message of torchrun's SignalException."""
ENOUGH = 300
"""Steps after which a user who ends a training has seen what the checks ask for. Our own number."""
OF_SIGNALS = ("KeyboardInterrupt", "SignalException")
"""Exceptions that a signal raises."""
LONGEST = 300
"""Characters of a message in a summary."""
KILLED = (
    "Another process ended it, most often the kernel's out-of-memory killer or the scheduler: give "
    "the job more host memory (MEM002) or time, and look at the kernel log."
)
READ_LOG = (
    "Save what the training prints (COMMAND 2>&1 | tee train.log) and run doctor triage train.log: "
    "it names the first cause and its fix."
)


def ended(guard: Guarded) -> Verdict:
    code, steps = guard.exit_code, f"after {guard.steps:,} steps"
    if guard.stopped:
        return skip(f"the guard ended the training {steps}: --stop")
    outside = _from_outside(guard)
    raised = guard.error is not None and guard.error.error not in OF_SIGNALS
    still = any(not each.resumed for each in guard.stalls)
    if outside == "SIGINT" and guard.steps >= ENOUGH and not raised and not still:
        return note(f"Ctrl-C (SIGINT) ended the training {steps}")
    if outside and not raised:
        return unknown(f"{outside} from outside ended the training {steps}, not its own end")
    if code is None:
        if any_process(guard, lambda process: not process.ended):
            return unknown(f"no end was recorded {steps}: killed, or still running")
        return skip("the guard did not start the training, which has no exit code here")
    if code == 0:
        return ok(f"exit code 0 {steps}")
    name = _signal(code)
    summary = f"exit code {code}{f' ({name})' if name else ''} {steps}; 0 required"
    if name == "SIGKILL":
        return fail(summary, "sudo dmesg | grep -i 'killed process'", fix=KILLED)
    return with_causes(summary, guard.error, "doctor triage train.log")


def _from_outside(guard: Guarded) -> str:
    """The signal of a user or a scheduler that ended the training, "" for none."""
    code = guard.exit_code
    if not code:
        return ""
    error = guard.error
    if error is not None and error.error == "SignalException":
        match = OF_LAUNCHER.match(error.message)
        code = 128 + int(match[1]) if match else code
    name = _signal(code)
    return guard.signal or (name if name in FROM_OUTSIDE else "")


def with_causes(summary: str, error: GuardError | None, *commands: str) -> Verdict:
    """The failure with the causes that its message may have, as `doctor explain` proposes them;
    with the commands where none is known."""
    if error is None:
        return fail(summary, *commands)
    message = f"{error.error}: {error.message}"
    causes = possible(message)
    summary = f"{summary}: {shown(message, LONGEST)}"
    if not causes:
        return fail(summary, *commands)
    first = causes[0]
    return fail(
        summary,
        *first.commands,
        fix=any_of(causes),
        owner=first.owner,
        sources=first.sources,
        causes=tuple(row.id for row in causes),
    )


def _signal(code: int) -> str:
    """The signal that a shell reports with this exit code, "" for none."""
    try:
        return signal.Signals(code - 128).name
    except ValueError:
        return ""


ENDED = Check(
    code=CODE,
    slug="training-ended",
    title="The training ends without an error",
    why="A training can be healthy to its last step and then stop: out of memory, an assertion on "
    "the GPU, a full disk. The steps alone do not show it.",
    passes=("the command's exit code is 0",),
    notes=(f"a user ended it with Ctrl-C after at least {ENOUGH} steps",),
    fails=("the exit code is not 0, and no signal from outside ended it",),
    fix=READ_LOG,
    owner=Owner.JOB,
    judge=ended,
    limits="that all the steps that were planned were done: only the exit code is known.",
    sources=("bash-exit-status",),
    required="always",
)


def _advances(guard: Guarded) -> Verdict:
    if not guard.watched and not guard.stalls:
        return skip("nobody watched the pace of the training")
    lasting = [stall for stall in guard.stalls if not stall.resumed]
    if not lasting:
        longest = max(guard.stalls, key=lambda stall: stall.seconds, default=None)
        if longest is None:
            return ok(f"records of {guard.watched} processes came without a long pause")
        return note(f"{_stalled(longest)}; then it went on")
    stall = max(lasting, key=lambda stall: stall.seconds)
    more = f"; {len(lasting) - 1} more ranks" if len(lasting) > 1 else ""
    return warn(f"{_stalled(stall)}{more}")


def _stalled(stall: GuardStall) -> str:
    """What was observed, in one line."""
    usual = f"usual: {stall.usual:.2g} s" if stall.usual else "usual: not known"
    where = f", in {shown(stall.where, LONGEST)}" if stall.where else ""
    return (
        f"rank {stall.rank} wrote nothing for {stall.seconds:,.0f} s after step {stall.step:,} "
        f"({usual}){where}"
    )


ADVANCES = Check(
    code="GRD023",
    slug="training-advances",
    title="Steps keep coming",
    why="A collective that one rank never joins, a DataLoader's worker that died, or a dead mount "
    "stops a training without an error, often until a timeout of half an hour or until the paid "
    "time is over.",
    passes=("no rank was without a step for long, or steps went on afterwards",),
    notes=("a pause of at least 300 s and ten times the usual, after which steps went on",),
    warns=("a rank was without a step for so long, and none followed",),
    fix="Look at the stacks that the summary names: a rank in a collective waits for one that is "
    "elsewhere. `doctor triage` on the log and on NCCL's flight recorder names the rank that is "
    "missing; a stack in the DataLoader or in open() is the data or the storage.",
    commands=("doctor triage train.log",),
    owner=Owner.JOB,
    judge=_advances,
    limits="that the steps are as fast as they could be: see GRD018.",
    required="never",
    sources=("pytorch-97191",),
)

CHECKS = (ADVANCES, ENDED)
