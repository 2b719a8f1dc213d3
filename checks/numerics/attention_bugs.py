"""Known bugs of torch's attention kernels: which of them this stack may have."""

from __future__ import annotations

from typing import Literal, NamedTuple

from packaging.version import Version

from doctor._util.records import Unknown
from doctor._util.units import dotted
from doctor.checks.numerics.attention_order import (
    CUDNN,
    EFFICIENT,
    NAMES,
    Switches,
    deprioritized,
    first_backend,
)
from doctor.facts.cudnn_stacks import (
    HOPPER,
    HOPPER_BLACKWELL,
    NAN_FOR_ONE_QUERY,
    NO_PLAN_FOR_ONE_QUERY,
    NO_PLAN_WITH_DROPOUT,
    WRONG_DECODING,
    Capabilities,
    is_between,
)
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Torch
from doctor.facts.load import Attention
from doctor.facts.views import JobGpus
from doctor.job.job import Precision
from doctor.judge.switches import VARIABLES, Switch


class Bug(NamedTuple):
    """A known bug: affected versions, the condition that triggers it, and its fix."""

    torch: tuple[str, str]
    """From this version, to before that one."""
    cudnn: tuple[int, int] | None
    """First and last version, as torch.backends.cudnn.version() spells them."""
    capability: Capabilities
    """First and last."""
    backend: int
    """It is triggered if this backend is the first choice."""
    symptom: str
    condition: str
    fix: str
    source: str
    cases: tuple[str, ...] = ()
    """Cases of the attention trial that always reproduce it; (): it is intermittent."""
    below: float | None = None
    """The log-sum-exp that a row of those cases must be below."""
    exempt: tuple[int, ...] = ()
    """cuDNN versions inside the range without the bug."""
    training: bool = True
    """A training step of a language model can trigger it. If not, it is a note and no warning."""
    masked: bool = False
    """Only attention with a mask, or that is not causal, can trigger it."""
    fp32: bool = False
    """A job in fp32 can trigger it; cuDNN and flash attention do not support fp32."""


BUGS = (
    Bug(torch=("2.5.0", "2.5.1"), cudnn=(90100, 90199), capability=HOPPER_BLACKWELL, backend=CUDNN,
        symptom="NaN gradients and loss explosions",
        condition="the output of attention is transposed or reshaped before the loss",
        fix="upgrade to torch 2.5.1, where cuDNN attention is opt-in", source="pytorch-139298",
        cases=("causal",)),
    Bug(*NO_PLAN_FOR_ONE_QUERY, backend=CUDNN,
        symptom='the error "No execution plans support the graph"',
        condition="cuDNN has no plan for the shape, as with a query length of 1",
        fix="upgrade to torch 2.5.1, where cuDNN attention is opt-in", source="pytorch-140930",
        cases=("one query",)),
    Bug(torch=("2.9.0", "2.10.0"), cudnn=(90000, 91500), capability=HOPPER_BLACKWELL, backend=CUDNN,
        symptom="out-of-bounds reads in the backward pass, an illegal memory access at worst",
        condition="the key length is not a multiple of 128 and there is no padding mask",
        fix="upgrade to cuDNN 9.15.1, or to torch 2.10, which does not prefer older ones",
        source="pytorch-169849"),
    Bug(torch=("2.11.0", "2.15.0"), cudnn=(91900, 92599), capability=HOPPER, backend=CUDNN,
        symptom="NaN in the gradient of the queries alone",
        condition="attention is not causal or gets a mask, the key length modulo 128 is 64, and a "
        "query row has a log-sum-exp below -88.7", fix="upgrade to torch 2.15 with cuDNN 9.26",
        source="pytorch-196678", cases=("very negative logits, mask", "very negative logits"),
        below=-88.7, masked=True),
    Bug(*WRONG_DECODING, backend=CUDNN, symptom="silently wrong output in decoding",
        condition="the query length is 1, with grouped queries and few key heads (generation and "
        "evaluation, not the training step)",
        fix="upgrade to torch 2.14, which does not decode with these versions",
        source="pytorch-193893", exempt=(92401,), training=False),
    Bug(torch=("2.14.0.dev0", "2.15.0"), cudnn=(92400, 92499), capability=((10, 7), (10, 7)),
        backend=CUDNN, symptom='the error "No valid execution plans built"',
        condition="cuDNN attention is used: cuDNN 9.24 has none for this GPU",
        fix="upgrade to cuDNN 9.25 or newer", source="pytorch-192843", cases=("causal",)),
    Bug(torch=("2.12.0", "2.14.0"), cudnn=(92000, 92099), capability=HOPPER, backend=CUDNN,
        symptom="mha_graph.execute(...).is_good() is false intermittently",
        condition="masks of changing shapes, seen with several images in a batch on H200",
        fix="no fixed version is documented", source="pytorch-190321", training=False),
    Bug(*NAN_FOR_ONE_QUERY, backend=CUDNN,
        symptom="NaN in the gradients of keys and values for a single query",
        condition="the query length is 1 in a step that computes gradients, and the logits are "
        "strongly negative", fix="no fixed version is documented", source="cudnn-frontend-1072",
        training=False),
    Bug(torch=("2.0.0", "2.14.0"), cudnn=None, capability=((8, 0), (12, 9)), backend=EFFICIENT,
        symptom="wrong output of memory-efficient attention in bf16",
        condition="keys or values are broadcast (stride 0), length modulo 32 is 1, with a mask",
        fix="call .contiguous() on expanded keys and values, or upgrade to torch 2.14",
        source="pytorch-191937", masked=True),
    Bug(torch=("2.0.0", "2.5.0"), cudnn=None, capability=((5, 0), (9, 0)), backend=EFFICIENT,
        symptom="NaN from memory-efficient attention",
        condition="a mask hides every key of some query row",
        fix="upgrade to torch 2.5, which gives 0 for such rows", source="pytorch-103749",
        cases=("fully masked row",), masked=True, fp32=True),
    Bug(*NO_PLAN_WITH_DROPOUT, backend=CUDNN,
        symptom="an error from cuDNN attention, which has no plan with dropout",
        condition="the dropout of attention is above 0",
        fix="upgrade to torch 2.9.1, which then uses another kernel", source="pytorch-163903",
        cases=("dropout",)),
)  # fmt: skip

Applies = Literal["yes", "no", "off", "unknown"]


class Suspicion(NamedTuple):
    """The known bugs that match a stack of versions."""

    stack: str
    """The versions compared with the table."""
    hits: tuple[Bug, ...] = ()
    unsure: tuple[Bug, ...] = ()
    """They may match: a deciding fact could not be read."""
    switched_off: str = ""
    """The switch that avoids a matching bug, "" if none does."""
    notes: tuple[Bug, ...] = ()
    """Bugs that match, but that this job does not trigger."""
    of_masks: tuple[Bug, ...] = ()
    """Bugs that match, and that this job would trigger if its attention had a mask or were not
    causal."""

    def of_job(self, precision: Precision | None, *, masked: bool) -> Suspicion:
        """The same with the bugs that a job in this precision does not trigger as notes.

        `masked`: its attention has a mask or is not causal.
        """
        relevant = {bug for bug in BUGS if bug.training and (precision != "fp32" or bug.fp32)}
        hidden = set() if masked else {bug for bug in relevant if bug.masked}
        return self._replace(
            hits=tuple(bug for bug in self.hits if bug in relevant - hidden),
            unsure=tuple(bug for bug in self.unsure if bug in relevant - hidden),
            notes=tuple(bug for bug in self.hits if bug not in relevant),
            of_masks=tuple(bug for bug in self.hits if bug in hidden),
        )


def suspect(
    version: Version,
    torch: Torch,
    switches: Switches,
    cuda: Cuda | Unknown | None,
    job_gpus: JobGpus,
    host: Host | Unknown,
) -> Suspicion:
    """Compare the stack with the table. `job_gpus` holds at least one GPU."""
    capabilities = {gpu.capability for gpu in job_gpus.gpus}
    applies: dict[Bug, set[Applies]] = {bug: set() for bug in BUGS}
    for capability in capabilities:
        observed = cuda if capability == job_gpus.gpus[0].capability else None
        first = first_backend(version, torch, switches, observed, host, capability)
        for bug in BUGS:
            applies[bug].add(_applies(bug, version, torch, switches, capability, first))
    hits = tuple(bug for bug in BUGS if "yes" in applies[bug])
    return Suspicion(
        _stack(torch, cuda, capabilities),
        hits,
        tuple(bug for bug in BUGS if "unknown" in applies[bug] and bug not in hits),
        _switched_off(host, version, any("off" in how for how in applies.values())),
    )


def covers(attention: Attention, capability: tuple[int, int] | None, bug: Bug) -> bool:
    """Whether the trial, on a GPU of that capability, would have reproduced the bug."""
    if capability is None or not bug.capability[0] <= capability <= bug.capability[1]:
        return False
    return any(
        trial.backend == NAMES[bug.backend]
        and trial.case in bug.cases
        and trial.ended.ok
        and trial.refused is None
        and _low_enough(attention, f"{trial.case}/{trial.dtype}", bug)
        for trial in attention.trials
    )


def _low_enough(attention: Attention, group: str, bug: Bug) -> bool:
    return bug.below is None or float(attention.lowest_lse.get(group, 0.0)) < bug.below


def _applies(
    bug: Bug,
    version: Version,
    torch: Torch,
    enabled: Switches,
    capability: tuple[int, int] | None,
    first: int | None,
) -> Applies:
    if not is_between(str(version), bug.torch):
        return "no"
    if capability and not bug.capability[0] <= capability <= bug.capability[1]:
        return "no"
    if bug.cudnn and torch.cudnn is not None and not _has(bug, torch.cudnn):
        return "no"
    if enabled.get(NAMES[bug.backend]) is False:
        return "off"
    if first is not None and first != bug.backend:
        return "no"
    read = capability and first is not None and (bug.cudnn is None or torch.cudnn is not None)
    return "yes" if read else "unknown"


def _has(bug: Bug, cudnn: int) -> bool:
    low, high = bug.cudnn or (0, 0)
    return low <= cudnn <= high and cudnn not in bug.exempt


def _stack(
    torch: Torch, cuda: Cuda | Unknown | None, capabilities: set[tuple[int, int] | None]
) -> str:
    numbers = ", ".join(sorted(dotted(each) if each else "unread" for each in capabilities))
    order = cuda.sdp_priority if isinstance(cuda, Cuda) else None
    first = f"{NAMES.get(order[0], order[0])} first (observed)" if order else "order by the rule"
    cudnn = _cudnn_version(torch.cudnn)
    return f"torch {torch.version}, cuDNN {cudnn}, capability {numbers}, {first}"


def _cudnn_version(cudnn: int | None) -> str:
    """91900 -> "9.19.0", 8902 -> "8.9.2"."""
    if cudnn is None:
        return "unread"
    major = 10000 if cudnn >= 90000 else 1000
    return f"{cudnn // major}.{cudnn % major // 100}.{cudnn % 100}"


def _switched_off(host: Host | Unknown, version: Version, disabled: bool) -> str:
    """The switch that avoids a known bug here, "" if none does."""
    if disabled:
        return "the backend with a known bug is switched off"
    if deprioritized(host, version):
        return f"{VARIABLES[Switch.CUDNN_SDP]} puts cuDNN attention last"
    return ""
