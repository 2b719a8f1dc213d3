"""The loader delivers batches as fast as the GPU takes them."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor.facts.data import Data
from doctor.facts.data_batches import Pace
from doctor.facts.host import Host
from doctor.facts.own_model import OwnModel
from doctor.judge.check import Check, Owner, Verdict, ok, skip, unknown, warn

WAIT_SHARE = 0.3
"""Of a step's time; the guard's, in GRD017."""
WAIT_SECONDS = 0.01
"""Shorter waits are those of small experiments; the guard's, too."""
STABLE = 1.3
"""The slower half of the batches against the faster one. Our own number."""
DELAYED = 0.2
"""Share of the time in which the loader's processes wait for a core, from which on others may be
the reason. Our own number."""


def keeps_up(data: Data, own: OwnModel | Unknown | None, host: Host | Unknown) -> Verdict:
    split = data.split()
    step = _step(own)
    if step is None:
        return skip("no step was measured on a GPU; doctor run --model measures both")
    pace = split.pace if split is not None else None
    if pace is None:
        return skip("the training data do not come from a loader that can be read again")
    if isinstance(pace, Unknown):
        return unknown(pace.reason)
    first, second = pace.halves
    delayed = pace.delayed
    if max(first, second) > STABLE * min(first, second) or delayed is None or delayed > DELAYED:
        return unknown(f"the measurement is not stable: {_seconds(first)} a batch, then "
                       f"{_seconds(second)}; {_busy(pace)}")  # fmt: skip
    # Workers fetch while the GPU computes; without them it waits for the whole batch.
    wait = max(0.0, pace.seconds - step) if pace.workers else pace.seconds
    share = wait / (wait + step)
    text = (
        f"a batch takes {_seconds(pace.seconds)} with {_workers(pace, host)}, a step "
        f"{_seconds(step)}: it waits {share:.0%} of its time; at most {WAIT_SHARE:.0%}"
    )
    return warn(text) if share > WAIT_SHARE and wait > WAIT_SECONDS else ok(text)


def _step(own: OwnModel | Unknown | None) -> float | None:
    """Seconds of a step on a GPU; None: not measured."""
    if not isinstance(own, OwnModel) or own.smoke is None or own.trend is None or not own.whole:
        return None
    return own.trend.step_seconds if own.smoke.device.startswith("cuda") else None


def _workers(pace: Pace, host: Host | Unknown) -> str:
    cores = [host.cpus, host.cgroup_cpus] if isinstance(host, Host) else []
    known = [each for each in cores if each is not None]
    granted = f" on {min(known):g} cores" if known else ""
    return f"num_workers={pace.workers}{granted}"


def _busy(pace: Pace) -> str:
    if pace.delayed is None:
        return "whether others used its cores is not known"
    return f"its processes waited {pace.delayed:.0%} of their time for a core"


def _seconds(value: float) -> str:
    return f"{1000 * value:,.1f} ms"


PACE = Check(
    code="DAT012",
    slug="loader-keeps-up",
    title="Waiting for batches takes at most 30 % of a step's time",
    why="A loader that is slower than the GPU leaves it idle: the training takes as long as the "
    "loader, whatever the GPU costs.",
    passes=("the step waits for at most 30 % of its time, or less than 10 ms",),
    warns=("it waits longer, in a measurement whose halves agree",),
    fix="Raise num_workers up to the cores that the cgroup grants, set persistent_workers=True, "
    "and move decoding and tokenizing out of the loader.",
    owner=Owner.JOB,
    judge=keeps_up,
    limits="that files which are not in the page cache come as fast.",
    sources=("torch-dataloader",),
)

CHECKS = (PACE,)
