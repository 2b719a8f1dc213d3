"""The card under load: as fast as its model should be, and the same bits every time."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor._util.records import Unknown
from doctor.checks.gpu.device import RETURN, SLOWDOWNS
from doctor.facts.load import Load, Watched
from doctor.facts.views import JobGpus
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst
from doctor.judge.error_patterns import BROKEN_GPU, GPU_TAKEN, MIXED_CUDNN, match_error

GIGA, TERA = 1e9, 1e12


@dataclass(frozen=True, slots=True)
class Figure:
    """A bf16 matmul rate that others measured, in FLOP/s."""

    rate: float
    source: str


FIGURES = {
    "NVIDIA H100 80GB HBM3": Figure(730 * TERA, "gpu-fryer"),
    "NVIDIA GH200 480GB": Figure(705 * TERA, "gpu-fryer"),
    "NVIDIA H200": Figure(794.5 * TERA, "mamf"),
    "NVIDIA A100-SXM4-40GB": Figure(271.2 * TERA, "mamf"),
    "NVIDIA A100-SXM4-80GB": Figure(271.2 * TERA, "mamf"),
    "NVIDIA A100-PCIE-40GB": Figure(252.9 * TERA, "mamf"),
    "NVIDIA A100 80GB PCIe": Figure(252.9 * TERA, "mamf"),
    "NVIDIA B200": Figure(1745 * TERA, "mamf"),
}
"""By the name that the driver gives. Those of gpu-fryer are of 8192 x 8192 matrices; the others are
the best of many shapes, which leaves the share below some room. A model that is not here gets no
verdict, for peak rates of data sheets are not reached."""
SHARE = 0.75
"""Of the measured figure: the share that NVIDIA's DCGM requires (dcgm)."""
SIBLING_SHARE = 0.9
"""Of the fastest GPU of the same model beside it: the tolerance of gpu-fryer."""
LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s of one PCIe lane by generation, before packets' headers."""
LINK_SHARE = 0.6
"""Of the link's raw rate. A pinned copy reaches about 0.8 of it: 25 GB/s on generation 4 with 16
lanes, 50 on generation 5; three quarters of that are required, as of the matmul rate."""
BUILT_IN = re.compile(r"Laptop GPU|Max-Q|Mobile")
"""GPUs of laptops: the driver tells the lanes of the chip, of which many boards wire half."""
LEAST_FROM_HOST = 2.85
"""GB/s below which Vast.ai does not verify a machine (vast-self-test)."""
MOST_REPLAYS = 8
"""Packets sent again over PCIe, which DCGM accepts in a minute; the run lasts less."""


def speed(
    load: tuple[Load, ...],
    watched: tuple[Watched, ...] | Unknown | None,
    job_gpus: JobGpus | Unknown,
) -> Verdict:
    if not load:
        return unknown("no GPU was put under load")
    seen = {gpu.uuid: gpu for gpu in watched} if isinstance(watched, tuple) else {}
    sliced = _sliced(job_gpus)
    best = {each.name: max(_rate(o) or 0.0 for o in load if o.name == each.name) for each in load}
    verdicts = [
        skip(f"{label(each)} is a MIG slice: no figure is known for a part of a GPU")
        if each.uuid in sliced
        else _speed(each, seen.get(each.uuid or ""), best[each.name])
        for each in load
    ]
    return worst(*verdicts)


def _sliced(job_gpus: JobGpus | Unknown) -> set[str | None]:
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    return {gpu.slice.uuid for gpu in gpus if gpu.slice}


def label(load: Load) -> str:
    """ "GPU 0 (NVIDIA H200)", as the checks of the device call it."""
    return f"GPU {load.device.rpartition(':')[2]} ({load.name})"


def _rate(load: Load) -> float | None:
    return load.matmul.get("bf16") or load.matmul.get("fp16")


def _speed(load: Load, watched: Watched | None, best: float) -> Verdict:
    rate, figure = _rate(load), FIGURES.get(load.name)
    if not load.ended.ok or rate is None:
        return unknown(f"{label(load)}: the load did not end well, see GPU006")
    half = "bf16" if "bf16" in load.matmul else "fp16"
    said = f"{label(load)}: {rate / TERA:.0f} TFLOP/s in {half}"
    slow = _slow(load, rate, figure, best)
    host, narrow = _link(load, watched)
    if slow or narrow:
        told = "; ".join(part for part in (*slow, *narrow, _slowed(watched)) if part)
        sources = (figure.source,) if figure and slow else ()
        return warn(
            f"{said}{host}: {told}", sources=(*sources, *(("pcie-link",) if narrow else ()))
        )
    if figure is None:
        return skip(f"{said}{host}; no measured figure is known for this model to judge it by")
    least = SHARE * figure.rate / TERA
    measured = f"{figure.rate / TERA:.0f} were measured elsewhere, at least {least:.0f} required"
    return ok(f"{said}, {measured}{host}")


def _slow(load: Load, rate: float, figure: Figure | None, best: float) -> list[str]:
    found = []
    if figure and rate < SHARE * figure.rate:
        least = SHARE * figure.rate / TERA
        found.append(f"at least {least:.0f} required, {figure.rate / TERA:.0f} measured elsewhere")
    if rate < SIBLING_SHARE * best:
        found.append(f"the fastest GPU of this model beside it does {best / TERA:.0f}")
    return found


def _link(load: Load, watched: Watched | None) -> tuple[str, list[str]]:
    """What is told of the way to the host, and what is wrong with it."""
    link, most = (watched.link, watched.link_max) if watched else (None, None)
    if link and most and BUILT_IN.search(load.name):
        most = (most[0], min(link[1], most[1]))
    pcie = f" over PCIe {link[0]}.0 x{link[1]}" if link else ""
    if load.to_device is None:
        reason = load.unread.get("to_device", "not recorded")
        host = f"; copies from the host not measured ({reason})"
    else:
        host = f"; {load.to_device / GIGA:.1f} GB/s from the host{pcie}"
    if not (link and most):
        reason = watched.unread.get("link", "not recorded") if watched else "not watched"
        host += f", PCIe link not read ({reason})"
    return host, _narrow(load, watched, link, most)


def _narrow(
    load: Load,
    watched: Watched | None,
    link: tuple[int, int] | None,
    most: tuple[int, int] | None,
) -> list[str]:
    found = []
    least = LEAST_FROM_HOST
    if link and most:
        if link[1] < most[1]:
            found.append(f"{link[1]} PCIe lanes under load, {most[1]} possible in this slot")
        least = max(least, LINK_SHARE * LANE.get(most[0], 0.0) * most[1])
    if load.to_device is not None and load.to_device < least * GIGA:
        can = f" of PCIe {most[0]}.0 x{most[1]}" if most else ""
        found.append(f"at least {least:.1f} GB/s from the host required{can}")
    replays = watched.pcie_replays if watched else None
    if replays and replays > MOST_REPLAYS:
        found.append(f"{replays} PCIe packets were sent again, at most {MOST_REPLAYS} accepted")
    return found


def _slowed(watched: Watched | None) -> str:
    slowed = watched and any(watched.mask & bit for bit in SLOWDOWNS)
    return "heat or power slowed it down meanwhile, see GPU004" if slowed else ""


SPEED = Check(
    code="GPU005",
    slug="speed-as-expected",
    title="The GPU is as fast as its model should be",
    why="A GPU that is capped, badly cooled, shared or in a slow slot trains at a part of the "
    "speed that is paid for, and no error tells it. The doctor multiplies large half-precision "
    "matrices on all GPUs at the same time, then copies pinned memory to each in turn, while the "
    "PCIe link is read: an idle link drops to generation 1. Figures are rates that others "
    "measured, not peaks of data sheets; a model without one gets no verdict, and neither does a "
    "MIG slice.",
    passes=(
        f"at least {SHARE:.0%} of the measured bf16 rate of this model, and the PCIe link "
        "works as wide and as fast as the slot allows",
    ),
    warns=(
        f"less than {SHARE:.0%} of it, or than {SIBLING_SHARE:.0%} of the fastest GPU of the "
        "same model beside it; fewer PCIe lanes than the slot has, less than "
        f"{LINK_SHARE:.0%} of the raw rate of the link that is possible there or than "
        f"{LEAST_FROM_HOST} GB/s; more than {MOST_REPLAYS} PCIe packets sent again",
    ),
    fix="Run it again on the idle machine: another tenant's load on the GPU, the processor or the "
    "link looks the same. If it stays so, look at the power limit and the clocks, then at the "
    "slot and the riser; rented, ask for another machine.",
    limits="that the speed lasts: the load ran for seconds.",
    owner=Owner.MACHINE,
    judge=speed,
    returns=True,
    commands=(
        "nvidia-smi -q -d POWER,CLOCK,PERFORMANCE",
        "nvidia-smi -q | grep -A8 'GPU Link Info'",
    ),
    sources=("gpu-fryer", "mamf", "dcgm", "vast-self-test", "pcie-link"),
    after=("DRV001",),
    targets=("nvidia", "rocm"),
)


def same_twice(load: tuple[Load, ...]) -> Verdict:
    if not load:
        return unknown("no GPU was put under load")
    return worst(*(_same(each) for each in load))


def _same(load: Load) -> Verdict:
    who = f"{label(load)}, {load.uuid or 'UUID unknown'}"
    if not load.ended.ok:
        return _broke(who, load)
    if load.differing is None:
        return unknown(f"{who}: the products were not compared")
    said = f"{load.products} times the same product of {load.size} x {load.size} matrices"
    if load.differing:
        return fail(f"{who}: {said} and {load.differing:,} elements differ; none may")
    return ok(f"{label(load)}: {said}, bit for bit the same")


def _broke(who: str, load: Load) -> Verdict:
    ways = {"error": "raised", "signal": "crashed", "timeout": "hung"}
    said = f"{who}: the load {ways[load.ended.how]}: {load.ended.detail or 'no message'}"
    known = match_error(load.ended.detail, (GPU_TAKEN, BROKEN_GPU, MIXED_CUDNN))
    if known is GPU_TAKEN:
        return unknown(f"{said}; see GPU002")
    if known:
        return fail(said, fix=known.fix, owner=known.owner, sources=known.sources)
    return fail(said, fix=ENDED_BADLY)


ENDED_BADLY = (
    "Mend SMK001 first where it fails too; otherwise run once more with nothing else on the "
    "machine, and if it comes back give the machine back and name the GPU's UUID. It was torch's "
    "own matmuls and copies that ended so, and it takes load to show: see GPU003 too."
)

SAME_TWICE = Check(
    code="GPU006",
    slug="matmul-repeatable",
    aliases=("same-product-twice",),
    title="The GPU computes the same product twice",
    why="A GPU with a damaged unit answers wrong now and then, and no counter sees it: a run then "
    "diverges for no reason that its log shows. cuBLAS gives the same bits for the same call on "
    "one stream, so a product that comes out different was computed wrong once.",
    passes=("the load ended well, and every repeat of the same product had the same bits",),
    fails=("an element differed, or the load raised, crashed or hung",),
    fix=f"{RETURN}Your own: take off any overclocking, look at cooling and power, and have the GPU "
    "exchanged if it happens again.",
    limits="that the product is right, or that other operations are repeatable.",
    owner=Owner.MACHINE,
    judge=same_twice,
    returns=True,
    sources=("cublas-reproducibility", "gpu-burn"),
    after=("DRV001",),
    targets=("nvidia", "rocm"),
)

CHECKS = (SPEED, SAME_TWICE)
