"""The numbers of an out-of-memory message, and what they say about its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor._util.units import GIB, MIB, gib

_SIZE = r"([\d.]{1,20}) ?([KMGT]i?B|bytes)"
REQUEST = re.compile(rf"Tried to allocate {_SIZE}")
CAPACITY = re.compile(rf"total capac?i?ty of {_SIZE}|{_SIZE} total capacity")
FREE = re.compile(rf"of which {_SIZE} is free|; {_SIZE} free")
OWN = re.compile(rf"this process has {_SIZE} memory in use")
ALLOCATED = re.compile(rf"{_SIZE} is allocated by PyTorch|; {_SIZE} already allocated")
RESERVED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
ALLOWED = re.compile(rf"{_SIZE} allowed;")
RESERVED_IN_TOTAL = re.compile(rf"{_SIZE} reserved in total by PyTorch")
UNITS = {"bytes": 1, "KiB": 1024, "MiB": MIB, "GiB": GIB, "TiB": GIB * 1024,
         "KB": 1000, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 1024}  # fmt: skip
ONE_REQUEST, FULL, OTHER_PROCESS = "one-request", "full", "other-process"
"""Kinds of messages: no batch changes it; the step needs too much; it is another's memory."""
OTHERS, CONTEXT = 0.15, GIB
"""Share of the GPU, and bytes, that must be unaccounted for before other processes are blamed. Our
own numbers: CUDA's own context and libraries take up to about 1 GiB."""

BESIDE = 0.25
"""Share of the GPU that this process holds outside torch before another library is blamed. Our own
number."""
NEARLY, BEYOND = 0.8, 1.02
"""Shares of the GPU: from which on one request leaves no room for anything else, and what rounding
explains. Our own numbers."""
PIECES = 0.03
"""Share of the GPU from which on reserved and unused memory is worth joining. Our own number."""
IN_USE = 0.85
"""Share of the GPU in use from which on joining the pieces only delays the end. Our own number."""
LARGE = 0.25
"""Share of the GPU from which on one request is of a batch that is too large. Our own number."""
LARGEST = (
    "No GPU serves this request beside the model: look for the one sample that is far longer than "
    "the others, a shape that is wrong, an attention mask or logits of the whole sequence, or a "
    "missing chunk size. A smaller batch alone rarely suffices."
)
PREALLOCATED = (
    "Another library in the same process holds it: JAX and TensorFlow take most of the GPU when "
    "they start. Set XLA_PYTHON_CLIENT_PREALLOCATE=false (or XLA_PYTHON_CLIENT_MEM_FRACTION=0.2) "
    "before jax is imported, TF_FORCE_GPU_ALLOW_GROWTH=true, or keep them on the CPU."
)
SPILLED = (
    "The driver had moved memory to the host (WSL, Windows): training is slow long before it "
    "fails. Reduce the step's memory, and turn the driver's system memory fallback off."
)
PAUSED = (
    "A part of what torch counts is not on the GPU now. It belongs to a paused inference engine in "
    "the same process (the sleep mode of vLLM or SGLang in verl, OpenRLHF or TRL); or, on WSL and "
    "Windows, the driver moved it to the host, which makes training slow long before it fails. "
    "Reduce the memory of the training step: a smaller micro-batch per GPU (verl: "
    "ppo_micro_batch_size_per_gpu, log_prob_micro_batch_size_per_gpu, use_dynamic_bsz), shorter "
    "responses, gradient checkpointing, parameters and optimizer offloaded, a lower "
    "gpu_memory_utilization."
)


@dataclass(frozen=True, slots=True)
class Described:
    """A sub-class of out-of-memory, its summary and its fix."""

    kind: str
    summary: str
    fix: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """Bytes; None where the message has no such number."""

    request: float | None
    capacity: float | None
    free: float | None
    own: float | None
    allocated: float | None
    reserved: float | None
    """Reserved by the allocator and not in use."""
    before_segments: bool = False
    """Whether the wording is of a torch before 2.1, which refuses expandable_segments."""
    allowed: float | None = None
    """The share of the GPU that the process may use, where it is limited."""

    @property
    def missing(self) -> float | None:
        """Neither free nor this process's."""
        if self.free is None or self.capacity is None or self.own is None:
            return None
        return self.capacity - self.free - self.own


def read_numbers(text: str) -> Numbers:
    """The numbers of any of torch's wordings since 1.0; it once spelled "capacty"."""
    allocated, total = _bytes(ALLOCATED, text), _bytes(RESERVED_IN_TOTAL, text)
    reserved = _bytes(RESERVED, text)
    if reserved is None and total is not None and allocated is not None:
        reserved = max(0.0, total - allocated)
    return Numbers(
        request=_bytes(REQUEST, text),
        capacity=_bytes(CAPACITY, text),
        free=_bytes(FREE, text),
        own=_bytes(OWN, text) if OWN.search(text) else total,
        allocated=allocated,
        reserved=reserved,
        before_segments=total is not None,
        allowed=_bytes(ALLOWED, text),
    )


def _bytes(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    if not match:
        return None
    number, unit = [group for group in match.groups() if group is not None][:2]
    try:
        return float(number) * UNITS.get(unit, 1)
    except ValueError:
        return None


def describe_oom(text: str) -> Described | None:
    """The reason that the numbers give; None where the message has none."""
    numbers = read_numbers(text)
    if numbers.request is None or numbers.capacity is None:
        return None
    request, capacity = numbers.request, numbers.capacity
    head = f"{gib(request)} requested of a GPU with {gib(capacity)}"
    if request > capacity:
        return Described(ONE_REQUEST, f"{head}: one request exceeds the whole GPU", LARGEST)
    own = numbers.allocated or 0.0
    if beyond := _beyond(numbers, head):
        return beyond
    if request >= NEARLY * capacity:
        return Described(ONE_REQUEST, f"{head}: one request takes nearly the whole GPU", LARGEST)
    if foreign := _foreign(numbers, head):
        return foreign
    others = _others(numbers, head)
    pieces = max(request, PIECES * capacity)
    if LARGE * capacity < request and not others:
        return _large(numbers, head)
    if numbers.reserved is not None and numbers.reserved >= pieces and own < IN_USE * capacity:
        mostly = numbers.missing is not None and numbers.missing > capacity / 2
        return (mostly and others) or _fragmented(numbers, head)
    return others or _full(numbers, head)


def _beyond(numbers: Numbers, head: str) -> Described | None:
    """More than the GPU has: counted, and not there."""
    allocated, capacity = numbers.allocated or 0.0, numbers.capacity or 0.0
    own = numbers.own
    if own is not None and own <= BEYOND * capacity < allocated:
        return Described(
            "not-on-the-card",
            f"{head}: torch counts {gib(allocated)} as allocated, the GPU {gib(own)}",
            PAUSED,
        )
    reserved = allocated + (numbers.reserved or 0.0)
    if reserved <= BEYOND * capacity:
        return None
    return Described(
        "beyond-the-card",
        f"{head}: {gib(reserved)} are reserved, more than the GPU has",
        SPILLED if (numbers.request or 0.0) < NEARLY * capacity else f"{LARGEST} {SPILLED}",
    )


def _large(numbers: Numbers, head: str) -> Described:
    """One tensor of such a size is of a batch: room for one more is not enough."""
    share = 100 * (numbers.request or 0.0) / (numbers.capacity or 1.0)
    return Described(
        FULL,
        f"{head}, {share:.0f} % of it at once: the step needs more than the GPU has",
        "A smaller batch or shorter sequences: a single tensor of this step takes that much. Where "
        "nothing is trained (embeddings, an evaluation), call the model under torch.no_grad(), in "
        "batches. In a training: a smaller micro-batch with gradient accumulation, gradient "
        "checkpointing, or shards with FSDP or ZeRO-3.",
    )


def _fragmented(numbers: Numbers, head: str) -> Described:
    option = "max_split_size_mb:128" if numbers.before_segments else "expandable_segments:True"
    return Described(
        "fragmentation",
        f"{head}: {gib(numbers.reserved or 0.0)} are reserved by torch and unused, but in pieces",
        f"Set PYTORCH_CUDA_ALLOC_CONF={option} before torch starts, and keep "
        "shapes equal from step to step (padding to fixed lengths).",
    )


def _others(numbers: Numbers, head: str) -> Described | None:
    own, least = numbers.own, OTHERS
    if own is None and numbers.allocated is not None:  # NVML names no process
        own, least = numbers.allocated + (numbers.reserved or 0.0), BESIDE
    if numbers.free is None or numbers.capacity is None or own is None:
        return None
    missing = numbers.capacity - numbers.free - own
    if missing < max(CONTEXT, least * numbers.capacity):
        return None
    return Described(
        OTHER_PROCESS,
        f"{head}: {gib(missing)} are neither free nor this process's",
        "Another process holds the memory: end it, or choose another GPU with "
        "CUDA_VISIBLE_DEVICES. nvidia-smi lists the processes. If it is this one, "
        f"{PREALLOCATED[0].lower()}{PREALLOCATED[1:]}",
    )


def _foreign(numbers: Numbers, head: str) -> Described | None:
    """Memory that this process holds beside torch's allocator."""
    if None in (numbers.own, numbers.allocated, numbers.reserved) or numbers.capacity is None:
        return None
    beside = (numbers.own or 0.0) - (numbers.allocated or 0.0) - (numbers.reserved or 0.0)
    if beside < BESIDE * numbers.capacity:
        return None
    return Described(
        "other-library",
        f"{head}: {gib(beside)} of this process are not torch's",
        f"{PREALLOCATED} For vLLM lower gpu_memory_utilization. NCCL, CUDA graphs and custom "
        "kernels allocate by themselves, too. A smaller batch or expandable_segments changes "
        "little.",
    )


def _full(numbers: Numbers, head: str) -> Described:
    joined = (
        f" expandable_segments:True in PYTORCH_CUDA_ALLOC_CONF gives back {gib(numbers.reserved)} "
        "at most."
        if numbers.reserved and not numbers.before_segments
        else ""
    )
    allocated = f", {gib(numbers.allocated)} allocated" if numbers.allocated is not None else ""
    end, raised = "the step needs more than the GPU has", ""
    if (numbers.free or 0.0) > (numbers.request or 0.0):
        end = f"the request failed with {gib(numbers.free or 0.0)} free"
    if numbers.allowed is not None and numbers.allowed < (numbers.capacity or 0.0):
        end = f"the process may use {gib(numbers.allowed)} of it"
        raised = "Raise the limit of the process (torch.cuda.set_per_process_memory_fraction). "
    return Described(
        FULL,
        f"{head}{allocated}: {end}",
        f"{raised}Reduce what the step needs: smaller micro-batch with gradient accumulation, "
        "gradient checkpointing, shorter sequences, an 8-bit optimizer, or shard with FSDP or "
        "ZeRO-3." + joined,
    )
