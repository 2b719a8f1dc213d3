"""The GPU under load: whether it is as fast as its model, and repeats results bit for bit."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor.checks.gpu.device import SLOWDOWNS
from doctor.checks.gpu.each_gpu import named, of_each
from doctor.checks.gpu.link import (
    LEAST_FROM_HOST,
    LINK_SHARE,
    MOST_REPLAYS,
    Link,
    link_of,
    missing_lanes,
)
from doctor.checks.gpu.rates import (
    COPY_FLOOR,
    COPY_SHARE,
    FLOOR,
    POWER_FLOOR,
    POWER_LIMITED,
    SHARE,
    SIBLING_SHARE,
    Requirement,
    half_rate,
    measured,
    of_siblings,
    requirements,
    shown,
)
from doctor.checks.gpu.remedies import RETURN
from doctor.facts.load import Load, Watched
from doctor.facts.machine import Driver
from doctor.facts.memory.room import shares_memory
from doctor.facts.views import JobGpu, JobGpus
from doctor.hardware.find import is_vgpu
from doctor.hardware.vendors import ON_CUDA
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst
from doctor.judge.known_errors import GPU_TAKEN, fail_by, find_cause

FEWER_LANES = (
    "Reseat the card and its riser or cable, or replace the riser. Then look how many lanes the "
    "slot is wired for, and how the firmware divides them (bifurcation, a disk that shares them). "
    "Rented: ask for another machine."
)


def speed(
    load: tuple[Load, ...] | Unknown,
    watched: tuple[Watched, ...] | Unknown | None,
    job_gpus: JobGpus | Unknown,
    driver: Driver | Unknown | None,
) -> Verdict:
    if isinstance(load, Unknown):
        return _lanes(watched, job_gpus, load.reason)
    if not load:
        return unknown("no GPU was put under load")
    samples = {gpu.uuid: gpu for gpu in watched} if isinstance(watched, tuple) else {}
    views = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    gpus = {f"cuda:{gpu.torch.index}": gpu for gpu in views if gpu.torch}
    sliced = {gpu.slice.uuid for gpu in views if gpu.slice}
    confidential = isinstance(driver, Driver) and bool(driver.confidential)
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
        verdicts.append(_speed(each, load, samples.get(each.uuid or ""), link, gpu))
    return worst(*verdicts)


def _lanes(
    watched: tuple[Watched, ...] | Unknown | None, job_gpus: JobGpus | Unknown, reason: str
) -> Verdict:
    """Of a report without a load the width of the links, which is the same on an idle GPU."""
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    known = {gpu.nvml.uuid: gpu for gpu in gpus if gpu.nvml}
    records = watched if isinstance(watched, tuple) else ()
    linked = [(known[each.uuid], each) for each in records if each.uuid in known and each.link]
    missing = []
    for gpu, each in linked:
        same = [other.link[1] for peer, other in linked if peer.name == gpu.name and other.link]
        if text := missing_lanes(gpu.name, each, max(same)):
            missing.append((named(gpu), warn(text, fix=FEWER_LANES)))
    return of_each(missing) if missing else unknown(reason)


def label(load: Load) -> str:
    """ "GPU 0 (NVIDIA H200)", as the checks of the device call it."""
    return f"GPU {load.device.rpartition(':')[2]} ({load.name})"


def _speed(
    load: Load, loads: tuple[Load, ...], watched: Watched | None, link: Link, gpu: JobGpu | None
) -> Verdict:
    half = half_rate(load)
    if not load.ended.ok or half is None:
        reason = load.ended.detail if load.left_out else "the load did not complete, see GPU006"
        return unknown(f"{label(load)}: {reason}")
    best = " at best, measured twice" if load.measured > 1 else ""
    summary = f"{label(load)}: {shown(half, load.matmul[half])} in {half}{best}{link.text}"
    required = _required(load, loads, watched, gpu)
    missed = [each for each in required if (measured(load, each.rate) or each.least) < each.least]
    if missed or link.problems:
        problems = "; ".join(
            part for part in (*_missed(load, missed), *link.problems, _slowed(watched)) if part
        )
        sources = dict.fromkeys(source for each in missed for source in each.sources)
        wild = any(each.wild for each in missed) and not _is_held_back(gpu)
        problem = fail if wild else warn
        fix = (
            "" if missed or len(link.problems) > 1 or "PCIe lanes" not in problems else FEWER_LANES
        )
        return problem(f"{summary}; {problems}", fix=fix, sources=(*sources, *link.sources))
    of_model = [each for each in required if each.rate == half and each.sources]
    if not of_model:
        return skip(f"{summary}; there is no published figure for this model")
    return ok(f"{summary}; {of_model[0].text}")


def _is_held_back(gpu: JobGpu | None) -> bool:
    """Whether others use the GPU, or its power limit was lowered: slow, but not broken."""
    if gpu is None:
        return False
    limit = gpu.nvml.power_limit if gpu.nvml else None
    default = gpu.nvml.power_limit_default if gpu.nvml else None
    return bool(gpu.use_by_others) or (
        limit is not None and default is not None and limit < default
    )


def _required(
    load: Load, loads: tuple[Load, ...], watched: Watched | None, gpu: JobGpu | None
) -> list[Requirement]:
    """Of a virtual GPU, which is a part of one, nothing; of one without memory of its own, no
    bandwidth."""
    if is_vgpu(load.name):
        return []
    required = requirements(load, watched) + of_siblings(load, loads)
    if gpu and shares_memory(gpu):
        required = [each for each in required if each.rate != "copy"]
    return required


def _missed(load: Load, missed: list[Requirement]) -> list[str]:
    """One text per rate: the highest requirement that it misses."""
    texts = {}
    half = half_rate(load)
    for each in sorted(missed, key=lambda each: each.least):
        value = measured(load, each.rate)
        what = f"{shown(each.rate, value or 0)} {RATES[each.rate]}, " if each.rate != half else ""
        texts[each.rate] = what + each.text
    return list(texts.values())


RATES = {"copy": "by a copy within the memory", "tf32": "in TF32", "fp32": "in fp32",
         "bf16": "in bf16", "fp16": "in fp16"}  # fmt: skip


def _slowed(watched: Watched | None) -> str:
    slowed = watched and any(watched.mask & bit for bit in SLOWDOWNS)
    return "heat or power slowed the GPU down, see GPU004" if slowed else ""


SPEED = Check(
    code="GPU005",
    slug="speed-as-expected",
    title="The GPU is as fast as its model",
    why="A GPU that is power-limited, badly cooled, shared or in a slow slot trains slowly without "
    "an error. All GPUs multiply large matrices at once and copy within their memory and from "
    "pinned memory; what looks slow is measured twice, and the higher rate counts. The figures are "
    "those of docs/hardware.md. MIG slices and virtual GPUs get no verdict.",
    passes=(
        f"the bf16 rate is at least {SHARE:.0%} of the published measurement of this model, or, "
        f"where there is none, {FLOOR:.0%} of its data sheet's peak ({POWER_FLOOR:.0%} for boards "
        f"below {POWER_LIMITED} W and for AMD)",
        f"TF32 and fp32 reach the same share of their peaks, a copy within the memory "
        f"{COPY_SHARE:.0%} of the data sheet's bandwidth",
        f"copies from the host reach {LINK_SHARE:.0%} of what the link's lanes carry",
    ),
    warns=(
        f"the rate is less than {SHARE:.0%} of the published one, or the copy less than "
        f"{COPY_SHARE:.0%} of the bandwidth",
        f"the rate or the copy is less than {SIBLING_SHARE:.0%} of that of the fastest GPU of the "
        "same model in this machine",
        "a GPU of the same model has more PCIe lanes, or fewer than 8 are in use (4 for GeForce)",
        "the link stays at generation 1 or 2 under load, and the GPU supports 4 or above",
        f"copies from the host reach less than {LINK_SHARE:.0%} of the raw rate of the lanes in "
        f"use, or less than {LEAST_FROM_HOST} GB/s, without confidential computing",
        f"more than {MOST_REPLAYS} PCIe packets were retransmitted",
    ),
    fails=(
        f"a rate is less than {FLOOR:.0%} of the published one or of the peak at the clock that "
        f"was measured, or the copy less than {COPY_FLOOR:.0%} of the bandwidth, and no other "
        "process used the GPU and its power limit was not lowered",
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
    also=("read",),
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
        reason = load.unread.get("differing", "not recorded")
        return unknown(f"{identity}: the products were not compared: {reason}")
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
