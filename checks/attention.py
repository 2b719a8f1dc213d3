"""Known bugs of the attention kernels that torch takes by default."""

from __future__ import annotations

from typing import Literal, NamedTuple

from packaging.version import InvalidVersion, Version

from doctor.model import Check, Owner, Verdict, ok, skip, unknown, warn
from doctor.sections import Cuda, Host, Torch, Unknown
from doctor.units import dotted
from doctor.views import JobGpus

MATH, FLASH, EFFICIENT, CUDNN = 0, 1, 2, 3
"""Values of torch.nn.attention.SDPBackend."""
NAMES = {MATH: "math", FLASH: "flash", EFFICIENT: "mem_efficient", CUDNN: "cudnn"}
"""Keys of Torch.sdp_enabled."""
PREFERRED_ABOVE = 91500
"""From torch 2.10 on cuDNN comes first above this cuDNN version (pytorch#169849)."""
VARIABLE = "TORCH_CUDNN_SDPA_DEPRIORITIZED"
VARIABLE_SINCE = (2, 10)
"""First torch that reads it."""
CALL = "torch.backends.cuda.enable_cudnn_sdp(False)"
"""There from torch 2.4 on, before any of the cuDNN bugs below."""


class Bug(NamedTuple):
    """A known bug: where it is, when it bites, and what cures it."""

    torch: tuple[str, str]
    """From this version, to before that one."""
    cudnn: tuple[int, int] | None
    """First and last version, as torch.backends.cudnn.version() spells them."""
    capability: tuple[tuple[int, int], tuple[int, int]]
    """First and last."""
    backend: int
    """It bites where this backend is the first choice."""
    symptom: str
    bites: str
    cure: str
    source: str
    spared: tuple[int, ...] = ()
    """cuDNN versions inside the range that do not have it."""


HOPPER = ((9, 0), (9, 0))
HOPPER_BLACKWELL = ((9, 0), (10, 9))
BUGS = (
    Bug(
        torch=("2.5.0", "2.5.1"),
        cudnn=(90100, 90199),
        capability=HOPPER_BLACKWELL,
        backend=CUDNN,
        symptom="NaN gradients and loss explosions",
        bites="the output of attention is transposed or reshaped before the loss",
        cure="upgrade to torch 2.5.1, where cuDNN attention is opt-in",
        source="pytorch-139298",
    ),
    Bug(
        torch=("2.5.0", "2.5.1"),
        cudnn=(90100, 90199),
        capability=HOPPER_BLACKWELL,
        backend=CUDNN,
        symptom='the error "No execution plans support the graph"',
        bites="cuDNN has no plan for the shape, as with a query length of 1",
        cure="upgrade to torch 2.5.1, where cuDNN attention is opt-in",
        source="pytorch-140930",
    ),
    Bug(
        torch=("2.9.0", "2.10.0"),
        cudnn=(90000, 91500),
        capability=HOPPER_BLACKWELL,
        backend=CUDNN,
        symptom="out-of-bounds reads in the backward pass, an illegal memory access at worst",
        bites="the key length is no multiple of 128 and there is no padding mask",
        cure="upgrade to cuDNN 9.15.1, or to torch 2.10, which prefers no older one",
        source="pytorch-169849",
    ),
    Bug(
        torch=("2.11.0", "2.15.0"),
        cudnn=(91900, 92599),
        capability=HOPPER,
        backend=CUDNN,
        symptom="NaN in the gradient of the queries alone",
        bites="attention is not causal or gets a mask, the key length modulo 128 is 64, and some "
        "query row has a log-sum-exp below -88.7",
        cure="upgrade to torch 2.15 with cuDNN 9.26",
        source="pytorch-196678",
    ),
    Bug(
        torch=("2.11.0", "2.14.0"),
        cudnn=(91900, 92500),
        capability=((10, 0), (11, 9)),
        backend=CUDNN,
        symptom="silently wrong output in decoding",
        bites="the query length is 1, with grouped queries and few key heads (generation and "
        "evaluation, not the training step)",
        cure="upgrade to torch 2.14, which does not decode with these versions",
        source="pytorch-193893",
        spared=(92401,),
    ),
    Bug(
        torch=("2.12.0", "2.14.0"),
        cudnn=(92000, 92099),
        capability=HOPPER,
        backend=CUDNN,
        symptom="mha_graph.execute(...).is_good() is false now and then",
        bites="masks of changing shapes, seen with several images in a batch on H200",
        cure="no fixed version is documented",
        source="pytorch-190321",
    ),
    Bug(
        torch=("2.0.0", "2.14.0"),
        cudnn=None,
        capability=((8, 0), (12, 9)),
        backend=EFFICIENT,
        symptom="wrong output of memory-efficient attention in bf16",
        bites="keys or values are broadcast (stride 0), their length modulo 32 is 1, with a mask",
        cure="call .contiguous() on expanded keys and values, or upgrade to torch 2.14",
        source="pytorch-191937",
    ),
)

Bites = Literal["yes", "no", "off", "unknown"]


def cudnn_sdpa(
    torch: Torch, cuda: Cuda | Unknown | None, job_gpus: JobGpus, host: Host | Unknown
) -> Verdict:
    if torch.cuda is None:
        return skip("this torch has no CUDA, so no such kernels")
    try:
        version = Version(torch.version)
    except InvalidVersion:
        return unknown(f"torch's version cannot be compared: {torch.version}")
    capabilities = {gpu.capability for gpu in job_gpus.gpus}
    if not capabilities:
        return unknown("no GPU is visible")
    found: dict[Bug, set[Bites]] = {}
    for capability in capabilities:
        seen = cuda if capability == job_gpus.gpus[0].capability else None
        first = first_backend(version, torch, seen, host, capability)
        for bug in BUGS:
            found.setdefault(bug, set()).add(_bites(bug, version, torch, capability, first))
    said = _stack(torch, cuda, capabilities)
    if hits := [bug for bug in BUGS if "yes" in found[bug]]:
        return _complaint(said, hits, version)
    if any("unknown" in how for how in found.values()):
        return unknown(f"{said}: a known bug may match, not all of these could be read")
    switched = _switched_off(torch, host, version, any("off" in how for how in found.values()))
    return ok(f"{said}: {switched or 'no known bug matches'}")


def _bites(
    bug: Bug,
    version: Version,
    torch: Torch,
    capability: tuple[int, int] | None,
    first: int | None,
) -> Bites:
    low, high = (Version(end) for end in bug.torch)
    if Version(version.base_version) < low or Version(version.public) >= high:
        return "no"
    if capability and not bug.capability[0] <= capability <= bug.capability[1]:
        return "no"
    if bug.cudnn and torch.cudnn is not None and not _has(bug, torch.cudnn):
        return "no"
    if torch.sdp_enabled.get(NAMES[bug.backend]) is False:
        return "off"
    if first is not None and first != bug.backend:
        return "no"
    read = capability and first is not None and (bug.cudnn is None or torch.cudnn is not None)
    return "yes" if read else "unknown"


def _has(bug: Bug, cudnn: int) -> bool:
    low, high = bug.cudnn or (0, 0)
    return low <= cudnn <= high and cudnn not in bug.spared


def first_backend(
    version: Version,
    torch: Torch,
    cuda: Cuda | Unknown | None,
    host: Host | Unknown,
    capability: tuple[int, int] | None,
) -> int | None:
    """The first backend in torch's order that is switched on: as observed, else by the rule."""
    order = cuda.sdp_priority if isinstance(cuda, Cuda) else None
    if order is None:
        front = _rule(version, torch, host, capability)
        if front is None:
            return None
        order = (front, FLASH, EFFICIENT, MATH)
    on = [backend for backend in order if torch.sdp_enabled.get(NAMES.get(backend, ""), True)]
    return on[0] if on else None


def _rule(
    version: Version, torch: Torch, host: Host | Unknown, capability: tuple[int, int] | None
) -> int | None:
    """Who comes first by default: the version table of the facts; None where it cannot tell."""
    if version.release[:3] == (2, 5, 0) or version.release[:2] >= (2, 9):
        if capability is None:
            return None
        if capability[0] not in (9, 10):
            return FLASH
    if version.release[:2] >= VARIABLE_SINCE:
        return _rule_since_2_10(torch, host, capability)
    if version.release[:3] == (2, 5, 0):
        return CUDNN
    if version.release[:2] == (2, 9) and not (torch.cuda or "").startswith("12."):
        return None
    return FLASH


def _rule_since_2_10(
    torch: Torch, host: Host | Unknown, capability: tuple[int, int] | None
) -> int | None:
    if isinstance(host, Host) and host.env.get(VARIABLE) == "1":
        return FLASH
    before_13 = (torch.cuda or "").startswith("12.")
    if before_13 and capability and capability[1] not in (0, 3):
        return FLASH
    if torch.cudnn is None or isinstance(host, Unknown):
        return None
    return CUDNN if torch.cudnn > PREFERRED_ABOVE else FLASH


def _stack(
    torch: Torch, cuda: Cuda | Unknown | None, capabilities: set[tuple[int, int] | None]
) -> str:
    ours = ", ".join(sorted(dotted(known) if known else "unread" for known in capabilities))
    order = cuda.sdp_priority if isinstance(cuda, Cuda) else None
    seen = f"{NAMES.get(order[0], order[0])} first (observed)" if order else "order by the rule"
    return f"torch {torch.version}, cuDNN {_spelled(torch.cudnn)}, capability {ours}, {seen}"


def _spelled(cudnn: int | None) -> str:
    """91900 -> "9.19.0", 8902 -> "8.9.2"."""
    if cudnn is None:
        return "unread"
    major = 10000 if cudnn >= 90000 else 1000
    return f"{cudnn // major}.{cudnn % major // 100}.{cudnn % 100}"


def _complaint(said: str, hits: list[Bug], version: Version) -> Verdict:
    symptoms = "; ".join(f"{bug.symptom} ({bug.source.replace('-', '#')})" for bug in hits)
    lines = [f"{bug.symptom}: when {bug.bites}. Cure: {bug.cure}." for bug in hits]
    commands: tuple[str, ...] = ()
    if any(bug.backend == CUDNN for bug in hits):
        commands, variable = (CALL,), ""
        if version.release[:2] >= VARIABLE_SINCE:
            commands, variable = (CALL, f"export {VARIABLE}=1"), f", or {VARIABLE}=1 before it"
        lines.append(
            f"Until then {CALL} at the start of the script{variable}: flash and memory-efficient "
            "attention stay as they are."
        )
    sources = tuple(bug.source for bug in hits)
    return warn(f"{said}: known bug: {symptoms}", *commands, fix="\n".join(lines), sources=sources)


def _switched_off(torch: Torch, host: Host | Unknown, version: Version, spared: bool) -> str:
    """Why a known bug does not bite here, "" if no switch is the reason."""
    if spared:
        return "the backend that has a known bug is switched off"
    variable = isinstance(host, Host) and host.env.get(VARIABLE) == "1"
    if variable and version.release[:2] >= VARIABLE_SINCE:
        return f"{VARIABLE}=1 puts cuDNN attention last, no known bug matches"
    return ""


SDPA = Check(
    code="NUM003",
    slug="cudnn-sdpa",
    title="The attention kernel taken by default has no known bug here",
    why="scaled_dot_product_attention picks its kernel by itself, and on Hopper and data-centre "
    "Blackwell some versions of torch pick cuDNN's. Known bugs of single versions give NaN in one "
    "gradient, or wrong numbers without an error. bf16 is not the cause: it has fp32's range. "
    "The table suspects, it does not prove: a suspicion bites only under the conditions told.",
    passes="no known bug matches torch, cuDNN, compute capability and the backend that comes first "
    "(as observed after a call, else by the rule of that torch), or that backend is switched off",
    warns="a known bug matches",
    fix=f"Upgrade to a version without the bug, or call {CALL} at the start of the script.",
    owner=Owner.ENVIRONMENT,
    judge=cudnn_sdpa,
    sources=("bts-root", "bts-fix1", "bts-fix3", "bts-quick", "pytorch-196678", "pytorch-193893"),
    targets=("nvidia",),
)

CHECKS = (SDPA,)
