"""Every backend of scaled_dot_product_attention, forward and backward, against float64.

One note per finished trial, so that a crash loses one trial only:
    {"cases": [{doctor.facts.load.AttentionCase}, ...]}     first
    {"trial": {doctor.facts.load.Trial}}
    {"group": "causal/bf16", "lowest_lse": -3.1}        once the reference is there
    {"group": "causal/bf16", "default": "flash", "sure": true}
        the default backend; sure after a call, because the order is set lazily
A trial's stage is called "causal/bf16/flash". The request, besides the device, the user's shape,
the job's precision, `quick` and `within`, the seconds that it may take:
    "done": ["causal/bf16/flash"]               stages to leave out
    "not_tried": {"dropout/bf16/cudnn": reason} trials to record as not tried
    "share": [0, 8]                             the first of eight parts; the first case is in each
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F

from ... import wire
from ..subject.timed import synchronize
from . import attention_cases as cases
from .attention_cases import Case

BACKENDS = ("flash", "mem_efficient", "cudnn", "math")
MEMBERS = {
    "flash": "FLASH_ATTENTION",
    "mem_efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "math": "MATH",
}
"""Names in torch.nn.attention.SDPBackend."""
CHOICES = {-1: "none", 0: "math", 1: "flash", 2: "mem_efficient", 3: "cudnn", 4: "overrideable"}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
REFUSALS = ("No available kernel", "No viable backend")
"""How torch's message begins when no enabled backend accepts the call."""
MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
OF_GPU = ("CUDA error", "CUDA driver error", "HIP error")
"""How torch names an error that the GPU or its driver reported."""


class BackendUnavailable(Exception):
    """This torch does not have the backend."""


@contextlib.contextmanager
def only_backend(backend: str) -> Iterator[None]:
    """Switch every other backend off. Raises BackendUnavailable."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:  # before torch 2.3
        if backend == "cudnn":
            raise BackendUnavailable(
                "torch %s does not have this backend" % torch.__version__
            ) from None
        switches = {name: name == backend for name in ("flash", "mem_efficient", "math")}
        with torch.backends.cuda.sdp_kernel(**{"enable_" + n: on for n, on in switches.items()}):
            yield
        return
    if not hasattr(SDPBackend, MEMBERS[backend]):
        raise BackendUnavailable("torch %s does not have this backend" % torch.__version__)
    with sdpa_kernel(getattr(SDPBackend, MEMBERS[backend])):
        yield


class Group(NamedTuple):
    """One case in one dtype: its inputs and reference."""

    case: Any
    dtype: str
    inputs: Any
    exact: Optional[Dict[str, torch.Tensor]]
    """None: no reference is possible, only finiteness is checked."""

    @property
    def name(self) -> str:
        return "%s/%s" % (self.case.name, self.dtype)


def attempt(group: Group, backend: str) -> Tuple[Dict[str, torch.Tensor], float]:
    """Output and gradients of one backend, and their time in seconds."""
    tensors = group.inputs
    leaves = [tensor.detach().requires_grad_() for tensor in (tensors.q, tensors.k, tensors.v)]
    started = time.perf_counter()
    with only_backend(backend):
        q, k, v, keywords = cases.arguments(group.case, leaves, tensors.mask)
        output = F.scaled_dot_product_attention(q, k, v, **keywords)
        # As models do; a gradient of other strides than the output's was a trigger in torch 2.5.0.
        merged = output.transpose(1, 2).reshape(tensors.upstream.shape)
        (merged * tensors.upstream).sum().backward()
    synchronize(tensors.q.device)
    seconds = time.perf_counter() - started
    return dict(zip(cases.PARTS, (output.detach(), *(leaf.grad for leaf in leaves)))), seconds


def compare(group: Group, result: Dict[str, torch.Tensor]) -> Dict[str, Any]:
    """Errors and counts as doctor.facts.load.Trial has them."""
    if group.inputs.rows is not None:  # rows without a visible key have no defined result
        for name in ("output", "dq"):
            result[name] = result[name][..., group.inputs.rows, :]
    counts = {name: int((~torch.isfinite(value)).sum()) for name, value in result.items()}
    bad = {name: count for name, count in counts.items() if count}
    if group.exact is None:
        return {"nonfinite": bad}
    errors = {}
    for name, exact in group.exact.items():
        actual = cases.select_heads(result[name], group.inputs.heads).to(exact.device).double()
        error = (actual - exact).norm() / exact.norm().clamp_min(1e-300)
        errors[name] = wire.number(float(error))
    return {"nonfinite": bad, "errors": errors}


def refusal_reason(error: Exception, captured: List[warnings.WarningMessage]) -> Optional[str]:
    """Why torch refused the backend, in its own words; None if the backend failed instead."""
    message: str = wire.describe(error)
    if isinstance(error, BackendUnavailable):
        return str(error)
    if any(words in message for words in MEMORY):
        return message
    if not any(words in message for words in REFUSALS):
        return None
    lines = [str(each.message).split(" (Triggered internally")[0] for each in captured]
    causes = [line for line in dict.fromkeys(lines) if not line.endswith("not used because:")]
    return "; ".join(causes)[:500] or message


def trial(group: Group, backend: str) -> Tuple[Dict[str, Any], Optional[Exception]]:
    """doctor.facts.load.Trial, and the error if the backend failed."""
    started = time.perf_counter()
    record: Dict[str, Any] = {"backend": backend, "dtype": group.dtype, "case": group.case.name}
    with warnings.catch_warnings(record=True) as captured:
        warnings.simplefilter("always")
        try:
            result, seconds = attempt(group, backend)
            return dict(
                record, ended={"how": "ok", "seconds": seconds}, **compare(group, result)
            ), None
        except Exception as error:
            seconds = time.perf_counter() - started
            refused = refusal_reason(error, captured)
            if refused is not None:
                return dict(record, ended={"how": "ok", "seconds": seconds}, refused=refused), None
            ended = {"how": "error", "detail": wire.describe(error)[:500], "seconds": seconds}
            return dict(record, ended=ended), error


def exit_if_broken(device: torch.device) -> None:
    """A CUDA error persists in its process: the next trial needs a new one."""
    try:
        synchronize(device)
    except Exception:
        os._exit(1)


def default_backend(group: Group) -> Optional[str]:
    """The backend that torch selects by default."""
    choose = getattr(torch, "_fused_sdp_choice", None)
    if choose is None:
        return None
    tensors = group.inputs
    leaves = [tensor.detach().requires_grad_() for tensor in (tensors.q, tensors.k, tensors.v)]
    q, k, v, keywords = cases.arguments(group.case, leaves, tensors.mask)
    try:
        return CHOICES.get(int(choose(q, k, v, **keywords)))
    except Exception:
        return None


def prepare(case: Case, dtype: str, device: torch.device) -> Group:
    """Inputs and reference of a group; the lowest log-sum-exp is noted."""
    tensors = cases.inputs(case, DTYPES[dtype], device)
    exact = None
    if case.judged == "error":
        exact, lowest = cases.reference(case, tensors)
        wire.send(note={"group": "%s/%s" % (case.name, dtype), "lowest_lse": wire.number(lowest)})
    return Group(case, dtype, tensors, exact)


def run_group(
    case: Case,
    dtype: str,
    device: torch.device,
    backends: List[str],
    deadline: float,
    not_tried: Dict[str, str],
) -> str:
    """The trials of one case in one dtype, a note each; the first that the deadline left out."""
    name = "%s/%s" % (case.name, dtype)
    with wire.stage(name + "/reference"):
        try:
            group = prepare(case, dtype, device)
        except Exception as error:
            for backend in backends:
                wire.send(note={"trial": without_reference(case, dtype, backend, error)})
            exit_if_broken(device)
            return ""
    with wire.stage(name + "/choice"):
        wire.send(note={"group": name, "default": default_backend(group), "sure": False})
    for backend in backends:
        if time.perf_counter() > deadline:
            return "%s/%s" % (name, backend)
        reason = not_tried.get("%s/%s" % (name, backend), "")
        if backend == "math" and case.too_big_for_math:
            reason = "the scores of all heads need more than 4 GiB"
        if reason:
            wire.send(note={"trial": refused(case, dtype, backend, "not tried: " + reason)})
            continue
        with wire.stage("%s/%s" % (name, backend)):
            outcome, failure = trial(group, backend)
        wire.send(note={"trial": outcome})
        if failure is not None:
            exit_if_broken(device)
    with wire.stage(name + "/choice"):
        wire.send(note={"group": name, "default": default_backend(group), "sure": True})
    return ""


def refused(case: Case, dtype: str, backend: str, reason: str) -> Dict[str, Any]:
    """The doctor.facts.load.Trial of a backend that did not run."""
    record = {"backend": backend, "dtype": dtype, "case": case.name}
    return dict(record, ended={"how": "ok"}, refused=reason)


def without_reference(case: Case, dtype: str, backend: str, error: Exception) -> Dict[str, Any]:
    """The doctor.facts.load.Trial without the reference. An error of the GPU is a failed trial."""
    reason = "no reference: " + wire.describe(error)[:400]
    record = refused(case, dtype, backend, reason)
    if any(words in reason for words in MEMORY) or not any(words in reason for words in OF_GPU):
        return record
    return dict(record, ended={"how": "error", "detail": reason}, refused=None)


def plan(
    all_cases: List[Any], precision: str, quick: bool, share: Tuple[int, int] = (0, 1)
) -> Iterator[Tuple[Any, str]]:
    """Case and dtype of each group: the job's dtype first, and of the other the first case only.

    cuDNN builds a plan for every layout and dtype: 0.4 s forward and 0.5 s backward on a B200
    (modelscope/FunASR#3704). Groups that use the same plan are in the same share. `quick`: only
    the first case and the job's shape.
    """
    first, other = sorted(DTYPES, key=lambda dtype: dtype != precision)
    groups = [(each, first) for each in all_cases[1:] if each.job or not quick]
    if not quick:
        groups.append((all_cases[0], other))
    plans = list(dict.fromkeys((case.layout, dtype) for case, dtype in groups))
    number, count = share
    yield all_cases[0], first
    for case, dtype in groups:
        if plans.index((case.layout, dtype)) % count == number:
            yield case, dtype


def run(request: Dict[str, Any]) -> Dict[str, Any]:
    """All trials that are not done yet: {"cut_short": why some were not begun, ""}."""
    device = torch.device(request["device"])
    if device.type == "cpu":
        torch.set_num_threads(1)
    deadline = time.perf_counter() + request["within"]
    done = set(request["done"])
    not_tried = request.get("not_tried", {})
    all_cases = cases.list_cases(device, request["shape"])
    wire.send(note={"cases": [case.record() for case in all_cases]})
    share = request.get("share", (0, 1))
    for case, dtype in plan(all_cases, request["precision"], bool(request.get("quick")), share):
        name = "%s/%s" % (case.name, dtype)
        if case.left_out or {name + "/reference", name + "/choice"} & done:
            continue
        backends = [each for each in BACKENDS if "%s/%s" % (name, each) not in done]
        left = name if time.perf_counter() > deadline else ""
        if left := left or run_group(case, dtype, device, backends, deadline, not_tried):
            return {"cut_short": "time was up before %s" % left}
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return {"cut_short": ""}
