"""The GPU under load: whether it is as fast as its model, and repeats results bit for bit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor._util.records import Unknown
from doctor.checks.gpu.device import RETURN, SLOWDOWNS
from doctor.checks.gpu.link import LEAST_FROM_HOST, LINK_SHARE, MOST_REPLAYS, Link, link_of
from doctor.facts.load import Load, Watched
from doctor.facts.machine import Driver
from doctor.facts.memory.room import shares_memory
from doctor.facts.views import JobGpu, JobGpus
from doctor.hardware.vendors import ON_CUDA
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst
from doctor.judge.known_errors import GPU_TAKEN, fail_by, find_cause

TERA = 1e12


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
the best of many shapes, which the share below accounts for."""
PEAKS = {
    "NVIDIA H100 PCIe": Figure(756 * TERA, "mamf"),
    "NVIDIA H100 NVL": Figure(835 * TERA, "nvidia-h100"),
    "NVIDIA H200 NVL": Figure(835 * TERA, "nvidia-h200"),
    "NVIDIA GB200": Figure(2500 * TERA, "mamf"),
    "NVIDIA L40S": Figure(362 * TERA, "mamf"),
    "Tesla V100-SXM2-16GB": Figure(125 * TERA, "nvidia-v100"),
    "Tesla V100-SXM2-32GB": Figure(125 * TERA, "nvidia-v100"),
    "Tesla V100-PCIE-16GB": Figure(112 * TERA, "nvidia-v100"),
    "Tesla V100-PCIE-32GB": Figure(112 * TERA, "nvidia-v100"),
    "NVIDIA GeForce RTX 3090": Figure(71 * TERA, "nvidia-rtx-blackwell"),
    "NVIDIA GeForce RTX 4090": Figure(165.2 * TERA, "nvidia-rtx-blackwell"),
    "NVIDIA GeForce RTX 5090": Figure(209.5 * TERA, "nvidia-rtx-blackwell"),
}
"""Dense half-precision peaks of data sheets, with sums in fp32, for models without a measured
figure. Left out are boards whose power limit keeps them far below their peak: T4, L4, A10, A40."""
SHARE = 0.75
"""Required share of the measured figure: that of NVIDIA's DCGM (dcgm)."""
FLOOR = 0.4
"""Share of a figure or peak below which no healthy GPU is. Our own number: of the models in
`FIGURES` the slowest reaches 0.7 of its peak."""
SIBLING_SHARE, SXM_SHARE = 0.8, 0.9
"""Required share of the fastest GPU of the same model. 0.9 is the tolerance of gpu-fryer, which is
for boards of one maker; GeForce boards of several makers differ by more in their clocks alone."""
SXM = re.compile(r"SXM|HBM3|GH200|NVIDIA H200$|\bG?B[23]00")


def speed(
    load: tuple[Load, ...],
    watched: tuple[Watched, ...] | Unknown | None,
    job_gpus: JobGpus | Unknown,
    driver: Driver | Unknown | None,
) -> Verdict:
    if not load:
        return unknown("no GPU was put under load")
    samples = {gpu.uuid: gpu for gpu in watched} if isinstance(watched, tuple) else {}
    views = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    gpus = {f"cuda:{gpu.torch.index}": gpu for gpu in views if gpu.torch}
    sliced = {gpu.slice.uuid for gpu in views if gpu.slice}
    best = {each.name: max(_rate(o) or 0.0 for o in load if o.name == each.name) for each in load}
    confidential = bool(getattr(driver, "confidential", False))
    verdicts = []
    for each in load:
        if each.uuid in sliced:
            reason = "is a MIG slice: there is no figure for a part of a GPU"
            verdicts.append(skip(f"{label(each)} {reason}"))
            continue
        same = [samples.get(o.uuid or "") for o in load if o.name == each.name]
        link = link_of(each, samples.get(each.uuid or ""), same)
        gpu = gpus.get(each.device)
        if gpu and shares_memory(gpu):
            link = Link("; it shares the host's memory, so there is no link to judge")
        elif confidential:
            link = Link(f"{link.text} (confidential computing: copies are encrypted)")
        verdicts.append(_speed(each, samples.get(each.uuid or ""), best[each.name], link, gpu))
    return worst(*verdicts)


def label(load: Load) -> str:
    """ "GPU 0 (NVIDIA H200)", as the checks of the device call it."""
    return f"GPU {load.device.rpartition(':')[2]} ({load.name})"


def _rate(load: Load) -> float | None:
    return load.matmul.get("bf16") or load.matmul.get("fp16")


def _speed(
    load: Load, watched: Watched | None, best: float, link: Link, gpu: JobGpu | None
) -> Verdict:
    rate = _rate(load)
    if not load.ended.ok or rate is None:
        reason = load.ended.detail if load.left_out else "the load did not complete, see GPU006"
        return unknown(f"{label(load)}: {reason}")
    dtype = "bf16" if "bf16" in load.matmul else "fp16"
    summary = f"{label(load)}: {rate / TERA:.0f} TFLOP/s in {dtype}{link.text}"
    figure = FIGURES.get(load.name) or PEAKS.get(load.name)
    slow = _slow(rate, load.name, best)
    if slow or link.problems:
        problems = "; ".join(part for part in (*slow, *link.problems, _slowed(watched)) if part)
        sources = (figure.source,) if figure and slow else ()
        wild = figure is not None and rate < FLOOR * figure.rate
        in_use = gpu is not None and bool(gpu.use_by_others)
        problem = fail if wild and not in_use else warn
        return problem(f"{summary}; {problems}", sources=(*sources, *link.sources))
    if figure is None:
        return skip(f"{summary}; there is no published figure for this model")
    return ok(f"{summary}; {_required(load.name)}")


def _required(name: str) -> str:
    """The required rate of a model that has a figure or a peak."""
    if figure := FIGURES.get(name):
        least, source = SHARE * figure.rate, f"{SHARE:.0%} of the published"
    else:
        figure = PEAKS[name]
        least, source = FLOOR * figure.rate, f"{FLOOR:.0%} of the data sheet's"
    return f"at least {least / TERA:.0f} TFLOP/s required ({source} {figure.rate / TERA:.0f})"


def _slow(rate: float, name: str, best: float) -> list[str]:
    problems = []
    figure, peak = FIGURES.get(name), PEAKS.get(name)
    if (figure and rate < SHARE * figure.rate) or (peak and rate < FLOOR * peak.rate):
        problems.append(_required(name))
    sibling_share = SXM_SHARE if SXM.search(name) else SIBLING_SHARE
    if rate < sibling_share * best:
        share = f"{sibling_share:.0%} of the fastest GPU of this model"
        problems.append(f"at least {sibling_share * best / TERA:.0f} TFLOP/s required ({share})")
    return problems


def _slowed(watched: Watched | None) -> str:
    slowed = watched and any(watched.mask & bit for bit in SLOWDOWNS)
    return "heat or power slowed the GPU down, see GPU004" if slowed else ""


SPEED = Check(
    code="GPU005",
    slug="speed-as-expected",
    title="The GPU is as fast as its model",
    why="A GPU that is power-limited, badly cooled, shared or in a slow slot trains slowly without "
    "an error. The doctor multiplies large half-precision matrices on all GPUs at once, copies "
    "pinned memory to each, and reads the PCIe link under load. Figures are published "
    "measurements, else the peaks of data sheets. Other models get no verdict, nor do MIG slices.",
    passes=(
        f"the bf16 rate is at least {SHARE:.0%} of the published rate of this model, or "
        f"{FLOOR:.0%} of its data sheet's peak where no measurement is published",
        f"copies from the host reach {LINK_SHARE:.0%} of what the link's lanes carry",
    ),
    warns=(
        f"the rate is less than {SHARE:.0%} of the published one",
        f"the rate is less than {SIBLING_SHARE:.0%} ({SXM_SHARE:.0%} for SXM boards) of the "
        "fastest GPU of the same model in this machine",
        "a GPU of the same model has more PCIe lanes, or fewer than 8 are in use (4 for GeForce)",
        "the link stays at generation 1 or 2 under load, and the GPU supports 4 or above",
        f"copies from the host reach less than {LINK_SHARE:.0%} of the raw rate of the lanes in "
        f"use, or less than {LEAST_FROM_HOST} GB/s, without confidential computing",
        f"more than {MOST_REPLAYS} PCIe packets were retransmitted",
    ),
    fails=(
        f"the rate is less than {FLOOR:.0%} of the published one or of the data sheet's peak, and "
        "no other process used the GPU",
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
    sources=("gpu-fryer", "mamf", "dcgm", "vast-self-test", "pcie-link", "gearshifft-82"),
    after=("DRV001",),
    targets=ON_CUDA,
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
    if load.differing and load.differing_again == 0:
        return warn(
            f"{identity}: {repeats} differ in {load.differing:,} elements; 0 allowed, and a second "
            "series had none"
        )
    if load.differing:
        summary = f"{identity}: {repeats} differ in {load.differing:,} elements; 0 allowed"
        return fail(summary, owner=Owner.MACHINE)
    return ok(f"{label(load)}: {repeats} are bit-identical")


def _not_completed(identity: str, load: Load) -> Verdict:
    verbs = {"error": "raised", "signal": "crashed", "timeout": "hung", "budget": "was cut off"}
    detail = load.ended.detail or "no message"
    summary = f"{identity}: the load {verbs[load.ended.how]}: {detail}"
    pattern = find_cause(load.ended)
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
    warns=("an element differed, and none did in a second series",),
    fails=(
        "an element differed in both series",
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
    targets=ON_CUDA,
)

CHECKS = (SPEED, REPEATABLE)
