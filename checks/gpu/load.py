"""The GPU under load: whether it is as fast as its model, and repeats results bit for bit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor._util.records import Unknown
from doctor.checks.gpu.device import RETURN, SLOWDOWNS
from doctor.facts.load import Load, Watched
from doctor.facts.views import JobGpus
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst
from doctor.judge.error_patterns import GPU_TAKEN, fail_by, find_pattern

GIGA, TERA = 1e9, 1e12


@dataclass(frozen=True, slots=True)
class Figure:
    """A published measurement of the bf16 matmul rate, in FLOP/s."""

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
"""By the driver's name of the GPU. Those of gpu-fryer are for 8192 x 8192 matrices; the others are
the best of many shapes, which the share below accounts for. A model without a figure gets no
verdict, because real matmuls do not reach the peak rates of data sheets."""
SHARE = 0.75
"""Required share of the measured figure: that of NVIDIA's DCGM (dcgm)."""
SIBLING_SHARE = 0.9
"""Required share of the fastest GPU of the same model: the tolerance of gpu-fryer."""
LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s of one PCIe lane by generation, including packet headers."""
LINK_SHARE = 0.6
"""Required share of the link's raw rate. A pinned copy reaches about 0.8 of it: 25 GB/s on
generation 4 with 16 lanes, 50 on generation 5; three quarters of that are required."""
BUILT_IN = re.compile(r"Laptop GPU|Max-Q|Mobile")
"""GPUs of laptops: the driver reports the chip's lanes, and many boards wire only half of them."""
LEAST_FROM_HOST = 2.85
"""GB/s below which Vast.ai does not verify a machine (vast-self-test)."""
MOST_REPLAYS = 8
"""Retransmitted PCIe packets that DCGM accepts in a minute; the run is shorter."""


def speed(
    load: tuple[Load, ...],
    watched: tuple[Watched, ...] | Unknown | None,
    job_gpus: JobGpus | Unknown,
) -> Verdict:
    if not load:
        return unknown("no GPU was put under load")
    samples = {gpu.uuid: gpu for gpu in watched} if isinstance(watched, tuple) else {}
    sliced = _sliced(job_gpus)
    best = {each.name: max(_rate(o) or 0.0 for o in load if o.name == each.name) for each in load}
    verdicts = [
        skip(f"{label(each)} is a MIG slice: there is no figure for a part of a GPU")
        if each.uuid in sliced
        else _speed(each, samples.get(each.uuid or ""), best[each.name])
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
        reason = load.ended.detail if load.left_out else "the load did not complete, see GPU006"
        return unknown(f"{label(load)}: {reason}")
    dtype = "bf16" if "bf16" in load.matmul else "fp16"
    summary = f"{label(load)}: {rate / TERA:.0f} TFLOP/s in {dtype}"
    slow = _slow(rate, figure, best)
    host, narrow = _link(load, watched)
    if slow or narrow:
        problems = "; ".join(part for part in (*slow, *narrow, _slowed(watched)) if part)
        sources = (figure.source,) if figure and slow else ()
        return warn(
            f"{summary}{host}; {problems}", sources=(*sources, *(("pcie-link",) if narrow else ()))
        )
    if figure is None:
        return skip(f"{summary}{host}; there is no published figure for this model")
    return ok(f"{summary}{host}; {_required(figure)}")


def _required(figure: Figure) -> str:
    least, published = SHARE * figure.rate / TERA, figure.rate / TERA
    return f"at least {least:.0f} TFLOP/s required ({SHARE:.0%} of the published {published:.0f})"


def _slow(rate: float, figure: Figure | None, best: float) -> list[str]:
    problems = []
    if figure and rate < SHARE * figure.rate:
        problems.append(_required(figure))
    if rate < SIBLING_SHARE * best:
        least = SIBLING_SHARE * best / TERA
        share = f"{SIBLING_SHARE:.0%} of the fastest GPU of this model"
        problems.append(f"at least {least:.0f} TFLOP/s required ({share})")
    return problems


def _link(load: Load, watched: Watched | None) -> tuple[str, list[str]]:
    """The connection to the host in words, and its problems."""
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
    problems = []
    least = LEAST_FROM_HOST
    if link and most:
        if link[1] < most[1]:
            problems.append(f"{link[1]} PCIe lanes under load, {most[1]} required in this slot")
        least = max(least, LINK_SHARE * LANE.get(most[0], 0.0) * most[1])
    if load.to_device is not None and load.to_device < least * GIGA:
        slot = f" in a slot with PCIe {most[0]}.0 x{most[1]}" if most else ""
        problems.append(f"at least {least:.1f} GB/s from the host required{slot}")
    replays = watched.pcie_replays if watched else None
    if replays and replays > MOST_REPLAYS:
        problems.append(f"{replays} PCIe packets retransmitted, at most {MOST_REPLAYS} accepted")
    return problems


def _slowed(watched: Watched | None) -> str:
    slowed = watched and any(watched.mask & bit for bit in SLOWDOWNS)
    return "heat or power slowed the GPU down, see GPU004" if slowed else ""


SPEED = Check(
    code="GPU005",
    slug="speed-as-expected",
    title="The GPU is as fast as its model",
    why="A GPU that is power-limited, badly cooled, shared or in a slow slot trains slowly without "
    "an error. The doctor multiplies large half-precision matrices on all GPUs at once, then "
    "copies pinned memory to each and reads the PCIe link under load. Figures are "
    "published measurements; a model without one gets no verdict, and neither does a MIG slice.",
    passes=(
        f"the bf16 rate is at least {SHARE:.0%} of the published rate of this model",
        "the PCIe link is as wide and as fast as the slot allows",
    ),
    warns=(
        f"the rate is less than {SHARE:.0%} of the published one",
        f"the rate is less than {SIBLING_SHARE:.0%} of the fastest GPU of the same model in this "
        "machine",
        "the link uses fewer PCIe lanes than the slot has",
        f"copies from the host reach less than {LINK_SHARE:.0%} of the raw rate of the slot's "
        f"link, or less than {LEAST_FROM_HOST} GB/s",
        f"more than {MOST_REPLAYS} PCIe packets were retransmitted",
    ),
    fix="Run the doctor again on the idle machine: another tenant's load on the GPU, the CPU or "
    "the link has the same effect. If it persists, check the power limit and the clocks, then the "
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


def repeatable(load: tuple[Load, ...]) -> Verdict:
    if not load:
        return unknown("no GPU was put under load")
    return worst(*(_repeatable(each) for each in load))


def _repeatable(load: Load) -> Verdict:
    identity = f"{label(load)}, {load.uuid or 'UUID unknown'}"
    if load.left_out:
        return unknown(f"{label(load)}: {load.ended.detail}")
    if not load.ended.ok:
        return _not_completed(identity, load)
    if load.differing is None:
        return unknown(f"{identity}: the products were not compared")
    repeats = f"{load.products} multiplications of the same {load.size} x {load.size} matrices"
    if load.differing:
        summary = f"{identity}: {repeats} differ in {load.differing:,} elements; 0 allowed"
        return fail(summary, owner=Owner.MACHINE)
    return ok(f"{label(load)}: {repeats} are bit-identical")


def _not_completed(identity: str, load: Load) -> Verdict:
    verbs = {"error": "raised", "signal": "crashed", "timeout": "hung", "budget": "was cut off"}
    detail = load.ended.detail or "no message"
    summary = f"{identity}: the load {verbs[load.ended.how]}: {detail}"
    pattern = find_pattern(load.ended)
    if pattern is GPU_TAKEN:
        return unknown(f"{summary}; see GPU002")
    if pattern:
        return fail_by(pattern, summary)
    if load.ended.how == "timeout":
        return fail(summary, fix=HUNG, owner=Owner.MACHINE)
    return unknown(f"{summary}; the products were not compared, see SMK001")


HUNG = (
    "Run the doctor again with nothing else on the machine. If it hangs again, return the machine "
    "and report the GPU's UUID: only torch's own matmuls and copies ran, after a kernel had "
    "completed. See GPU003 too."
)

REPEATABLE = Check(
    code="GPU006",
    slug="matmul-repeatable",
    aliases=("same-product-twice",),
    title="Repeated matrix multiplications are bit-identical",
    why="A GPU with a damaged unit occasionally computes wrong results that no counter records: a "
    "run diverges for no visible reason. cuBLAS returns the same bits for the same call on one "
    "stream, so a differing product was computed incorrectly.",
    passes=("the load completed, and every repetition of the same product had the same bits",),
    fails=(
        "an element differed",
        "the load hung",
        "the load ended with a known error: that of a broken GPU means to return the machine, any "
        "other means to fix the environment",
    ),
    fix=f"{RETURN}Your own: remove any overclocking, check cooling and power, and replace the GPU "
    "if it happens again.",
    limits="that the product is right, or that other operations are repeatable.",
    owner=Owner.MACHINE,
    judge=repeatable,
    returns=True,
    sources=("cublas-reproducibility", "gpu-burn", "cuda-errors"),
    after=("DRV001", "TOR003"),
    targets=("nvidia", "rocm"),
)

CHECKS = (SPEED, REPEATABLE)
