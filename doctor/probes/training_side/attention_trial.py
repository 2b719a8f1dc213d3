"""Every backend of scaled_dot_product_attention, forward and backward, against float64.

Imported by torch_stages.py when it is asked for; standard library and torch only, Python 3.9.
One note per finished trial, so that a crash loses one trial only:
    {"cases": [{card_sections.AttentionCase}, ...]}     first of all
    {"trial": {card_sections.Trial}}
    {"group": "causal/bf16", "lowest_lse": -3.1}        once the reference is there
    {"group": "causal/bf16", "default": "flash", "sure": true}
        what torch takes when nothing is switched; sure after a call, for the order is set lazily
A trial's stage is called "causal/bf16/flash"; `done` in the request names those to leave out.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
import wire

cases = wire.sibling("attention_cases")

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
"""How torch's message begins where no switched-on backend takes the call."""
MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


class NotOffered(Exception):
    """This torch has no such backend."""


@contextlib.contextmanager
def only(backend: str) -> Iterator[None]:
    """Switch every other backend off. Raises NotOffered."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:  # before torch 2.3
        if backend == "cudnn":
            raise NotOffered("torch %s has no such backend" % torch.__version__) from None
        switches = {name: name == backend for name in ("flash", "mem_efficient", "math")}
        with torch.backends.cuda.sdp_kernel(**{"enable_" + n: on for n, on in switches.items()}):
            yield
        return
    if not hasattr(SDPBackend, MEMBERS[backend]):
        raise NotOffered("torch %s has no such backend" % torch.__version__)
    with sdpa_kernel(getattr(SDPBackend, MEMBERS[backend])):
        yield


class Group(NamedTuple):
    """One case in one dtype: its inputs and what they must give."""

    case: Any
    dtype: str
    given: Any
    exact: Optional[Dict[str, torch.Tensor]]
    """None: no reference is possible, only finiteness is looked at."""

    @property
    def name(self) -> str:
        return "%s/%s" % (self.case.name, self.dtype)


def attempt(group: Group, backend: str) -> Tuple[Dict[str, torch.Tensor], float]:
    """Output and gradients of one backend, and the seconds they took."""
    given = group.given
    leaves = [tensor.detach().requires_grad_() for tensor in (given.q, given.k, given.v)]
    began = time.perf_counter()
    with only(backend):
        q, k, v, keywords = cases.arguments(group.case, leaves, given.mask)
        output = F.scaled_dot_product_attention(q, k, v, **keywords)
        # As models do; a gradient of other strides than the output's was a trigger in torch 2.5.0.
        merged = output.transpose(1, 2).reshape(given.upstream.shape)
        (merged * given.upstream).sum().backward()
    synchronize(given.q.device)
    spent = time.perf_counter() - began
    return dict(zip(cases.PARTS, (output.detach(), *(leaf.grad for leaf in leaves)))), spent


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def compared(group: Group, got: Dict[str, torch.Tensor]) -> Dict[str, Any]:
    """Errors and counts as card_sections.Trial has them."""
    if group.given.rows is not None:  # rows that see nothing have no right answer
        for name in ("output", "dq"):
            got[name] = got[name][..., group.given.rows, :]
    counts = {name: int((~torch.isfinite(value)).sum()) for name, value in got.items()}
    bad = {name: count for name, count in counts.items() if count}
    if group.exact is None:
        return {"nonfinite": bad}
    errors = {}
    for name, exact in group.exact.items():
        seen = cases.picked(got[name], group.given.heads).to(exact.device).double()
        off = (seen - exact).norm() / exact.norm().clamp_min(1e-300)
        errors[name] = wire.number(float(off))
    return {"nonfinite": bad, "errors": errors}


def reason(error: Exception, warned: List[warnings.WarningMessage]) -> Optional[str]:
    """Why torch did not take the backend, in its own words; None where it broke instead."""
    said: str = wire.said(error)
    if isinstance(error, NotOffered):
        return str(error)
    if any(words in said for words in MEMORY):
        return said
    if not any(words in said for words in REFUSALS):
        return None
    told = [str(each.message).split(" (Triggered internally")[0] for each in warned]
    causes = [line for line in dict.fromkeys(told) if not line.endswith("not used because:")]
    return "; ".join(causes)[:500] or said


def trial(group: Group, backend: str) -> Tuple[Dict[str, Any], Optional[Exception]]:
    """card_sections.Trial, and the error if the backend broke."""
    began = time.perf_counter()
    told: Dict[str, Any] = {"backend": backend, "dtype": group.dtype, "case": group.case.name}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            got, spent = attempt(group, backend)
            return dict(told, ended={"how": "ok", "seconds": spent}, **compared(group, got)), None
        except Exception as error:
            spent = time.perf_counter() - began
            refused = reason(error, warned)
            if refused is not None:
                return dict(told, ended={"how": "ok", "seconds": spent}, refused=refused), None
            ended = {"how": "error", "detail": wire.said(error)[:500], "seconds": spent}
            return dict(told, ended=ended), error


def leave_if_broken(device: torch.device) -> None:
    """A CUDA error sticks to its process: what follows wants a new one."""
    try:
        synchronize(device)
    except Exception:
        os._exit(1)


def choice(group: Group) -> Optional[str]:
    """The backend that torch takes by itself."""
    ask = getattr(torch, "_fused_sdp_choice", None)
    if ask is None:
        return None
    given = group.given
    leaves = [tensor.detach().requires_grad_() for tensor in (given.q, given.k, given.v)]
    q, k, v, keywords = cases.arguments(group.case, leaves, given.mask)
    try:
        return CHOICES.get(int(ask(q, k, v, **keywords)))
    except Exception:
        return None


def prepared(case: Any, dtype: str, device: torch.device) -> Group:
    """Inputs and reference of a group; the lowest log-sum-exp is told."""
    given = cases.inputs(case, DTYPES[dtype], device)
    exact = None
    if case.judged == "error":
        exact, lowest = cases.reference(case, given)
        wire.tell(note={"group": "%s/%s" % (case.name, dtype), "lowest_lse": wire.number(lowest)})
    return Group(case, dtype, given, exact)


def run_group(case: Any, dtype: str, device: torch.device, wanted: List[str]) -> None:
    """The trials of one case in one dtype; a note each."""
    name = "%s/%s" % (case.name, dtype)
    with wire.stage(name + "/reference"):
        try:
            group = prepared(case, dtype, device)
        except Exception as error:
            for backend in wanted:
                told = {"backend": backend, "dtype": dtype, "case": case.name}
                ended = {"how": "ok"}
                refused = "no reference: " + wire.said(error)[:400]
                wire.tell(note={"trial": dict(told, ended=ended, refused=refused)})
            leave_if_broken(device)
            return
    with wire.stage(name + "/choice"):
        wire.tell(note={"group": name, "default": choice(group), "sure": False})
    for backend in wanted:
        with wire.stage("%s/%s" % (name, backend)):
            if backend == "math" and case.too_big_for_math:
                refused = "not tried: the scores of all heads need more than 4 GiB"
                told = {"backend": backend, "dtype": dtype, "case": case.name}
                seen, failed = dict(told, ended={"how": "ok"}, refused=refused), None
            else:
                seen, failed = trial(group, backend)
        wire.tell(note={"trial": seen})
        if failed is not None:
            leave_if_broken(device)
    with wire.stage(name + "/choice"):
        wire.tell(note={"group": name, "default": choice(group), "sure": True})


def run(request: Dict[str, Any]) -> Dict[str, Any]:
    """All trials that are not done yet: {"cut_short": why some were not begun, ""}."""
    device = torch.device(request["device"])
    if device.type == "cpu":
        torch.set_num_threads(1)
    deadline = time.perf_counter() + request["within"]
    done = set(request["done"])
    listed = cases.listed(device, request["shape"])
    wire.tell(note={"cases": [case.record() for case in listed]})
    dtypes = sorted(DTYPES, key=lambda dtype: dtype != request["precision"])
    for case in listed:
        for dtype in dtypes[:1] if request.get("quick") else dtypes:
            name = "%s/%s" % (case.name, dtype)
            if case.left_out or {name + "/reference", name + "/choice"} & done:
                continue
            wanted = [each for each in BACKENDS if "%s/%s" % (name, each) not in done]
            if time.perf_counter() > deadline:
                return {"cut_short": "time was up before %s" % name}
            run_group(case, dtype, device, wanted)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return {"cut_short": ""}
