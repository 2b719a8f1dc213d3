"""The shapes of the attention trial, their inputs, and their float64 reference.

The softmax is written out, forward and backward, in blocks of queries: the reference uses none of
the kernels under test.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F

PARTS = ("output", "dq", "dk", "dv")
SEED = 22
GIB = 1 << 30
BUDGET = 4 * GIB
"""Upper bound in bytes for the reference of one case, and on a CPU for its inputs."""
FREE_SHARE = 4
"""On a GPU the reference uses at most this part of the free memory."""
COPIES = 4
"""Matrices of scores in float64 that the reference holds at once."""
WORK, WORK_OF_CPU = 10**13, 25 * 10**8
"""heads * queries * keys * head_dim of one trial: a few seconds on a small GPU, and on a CPU."""
EXACT, ALONE = 10**11, 5 * 10**11
"""The same of the reference, and of a single head of it."""
LARGE = 240.0
"""Times -4 and over the root of 64: logits of about -120."""
LONG = 704
"""Tokens of the published case of NaN in dq; it needs a length that leaves 64 modulo 128."""
LESS_LONG = 192
"""The same on a CPU, which has no such kernel."""

MASKS: Dict[str, Callable[[int, int], torch.Tensor]] = {
    "boolean, one key in four hidden": lambda queries, keys: (torch.arange(keys) % 4 != 3).expand(
        queries, keys
    ),
    "boolean, all True": lambda queries, keys: torch.ones(queries, keys, dtype=torch.bool),
    "boolean, one row all False": lambda queries, keys: (torch.arange(queries) != 3)[
        :, None
    ].expand(queries, keys),
}
HIDDEN, ALL, EMPTY_ROW = MASKS


class Case(NamedTuple):
    """doctor.facts.load.AttentionCase, and how its inputs are built."""

    name: str
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_dim: int
    causal: bool = False
    mask: str = ""
    dropout: float = 0.0
    trigger: str = ""
    job: bool = False
    judged: str = "error"
    note: str = ""
    left_out: bool = False
    expanded: bool = False
    """One head of keys and values, expanded to all heads with a stride of 0."""
    negative: bool = False
    """Every logit is large and negative."""
    packed: bool = False
    """Queries, keys and values are views of one tensor, as a single projection returns them."""

    def record(self) -> Dict[str, Any]:
        internal = ("expanded", "negative", "packed")
        return {name: value for name, value in self._asdict().items() if name not in internal}

    @property
    def layout(self) -> Tuple[Any, ...]:
        """What cuDNN builds a plan for, in one dtype: the values of a mask are not part of it."""
        sizes = (self.batch, self.heads, self.kv_heads, self.queries, self.keys, self.head_dim)
        return (*sizes, self.causal, bool(self.mask), self.dropout, self.expanded, self.packed)

    @property
    def too_big_for_math(self) -> bool:
        """Whether the math backend, with about six fp32 score matrices, exceeds the budget."""
        return self.batch * self.heads * self.queries * self.keys * 4 * 6 > BUDGET


def list_cases(device: torch.device, shape: Optional[List[int]]) -> List[Case]:
    """The cases, most important first: the last ones may be dropped when time runs out."""
    long = LONG if device.type == "cuda" else LESS_LONG
    work = WORK if device.type == "cuda" else WORK_OF_CPU
    of_user = [] if shape is None else [case_of_job(shape, memory(device), work)]
    cudnn, decode, broadcast = "pytorch-196678", "pytorch-193893", "pytorch-191937"
    square = (2, 2, 2, long, long, 64)
    """One shape for five cases: cuDNN builds a plan without a mask and one with a mask."""
    return [
        Case("causal", 2, 2, 2, 160, 160, 64, causal=True, packed=True),
        *of_user,
        Case("no mask", *square),
        Case("boolean mask", *square, mask=HIDDEN),
        Case("very negative logits, mask", *square, mask=ALL, trigger=cudnn, negative=True),
        Case("very negative logits", *square, trigger=cudnn, negative=True),
        Case(
            "fully masked row",
            *square,
            mask=EMPTY_ROW,
            trigger="pytorch-103749",
            judged="finite",
        ),
        Case("one query", 1, 28, 4, 1, 193, 128, trigger=decode),
        Case("broadcast keys", 1, 4, 1, 33, 97, 512, mask=HIDDEN, trigger=broadcast, expanded=True),
        Case(
            "dropout",
            1, 2, 2, 128, 128, 64,
            causal=True,
            dropout=0.125,  # cuDNN takes multiples of 1/16 only
            trigger="pytorch-163903",
            judged="finite",
        ),
    ]  # fmt: skip


def memory(device: torch.device) -> int:
    """Bytes available for the inputs, outputs and gradients of a case."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0]) // 2
    return BUDGET


def case_of_job(shape: List[int], memory: int, work: int) -> Case:
    """The user's own shape, causal, with batch and heads reduced to what fits."""
    batch, heads, tokens, head_dim = shape
    case = Case("your shape", batch, heads, heads, tokens, tokens, head_dim, causal=True, job=True)
    bytes_of_head = tokens * head_dim * 2 * 16
    """Inputs, output, gradients and the kernel's fp32 copies."""
    products = tokens * tokens * head_dim
    fitting = min(memory // bytes_of_head, work // products)
    if fitting < 1 or products > ALONE:
        note = "left out: a single head is too large for a quick test on this device"
        return case._replace(left_out=True, note=note)
    heads_tried = min(heads, fitting)
    samples = min(batch, fitting // heads_tried)
    notes = []
    if samples < batch or heads_tried < heads:
        notes.append("tried with batch %d and %d heads, which fits here" % (samples, heads_tried))
    total = samples * heads_tried
    if (count := len(heads_of(total, tokens, tokens, head_dim))) < total:
        notes.append("compared on %d of %d heads" % (count, total))
    return case._replace(
        batch=samples, heads=heads_tried, kv_heads=heads_tried, note="; ".join(notes)
    )


def heads_of(total: int, queries: int, keys: int, head_dim: int) -> List[int]:
    """Indices of the heads to compare, over all samples: all of them, or an even selection."""
    fitting = min(BUDGET // (COPIES * 8 * queries * keys), EXACT // (queries * keys * head_dim))
    count = max(1, min(total, fitting))
    return [index * total // count for index in range(count)]


class Inputs(NamedTuple):
    """Inputs of a case, rounded to its dtype."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    upstream: torch.Tensor
    """Gradient of the output, (batch, queries, heads * head_dim)."""
    mask: Optional[torch.Tensor]
    rows: Optional[torch.Tensor]
    """Queries with at least one visible key; None: all of them."""
    heads: Optional[List[int]]
    """Indices of the compared heads, over all samples; None: all of them."""


def inputs(case: Case, dtype: torch.dtype, device: torch.device) -> Inputs:
    draw = torch.Generator(device).manual_seed(SEED)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw, device=device, dtype=torch.float32).to(dtype)

    kv_shape = (case.batch, case.kv_heads, case.keys, case.head_dim)
    if case.packed:  # as in small_model.py, so that cuDNN has its plan from the smoke step
        packed = normal(case.batch, case.queries, 3, case.heads, case.head_dim)
        q, k, v = packed.permute(2, 0, 3, 1, 4)
    else:
        q = normal(case.batch, case.heads, case.queries, case.head_dim)
        k, v = normal(*kv_shape), normal(*kv_shape)
    if case.negative:
        q[..., 0], k[..., 0] = LARGE, -4.0
    upstream = normal(case.batch, case.queries, case.heads * case.head_dim)
    mask = rows = heads = None
    if case.mask:
        mask = MASKS[case.mask](case.queries, case.keys).to(device).contiguous()
        if not bool(mask.any(-1).all()):
            rows = mask.any(-1)
            upstream = upstream * rows[:, None]
    total = case.batch * case.heads
    if len(selected := heads_of(total, case.queries, case.keys, case.head_dim)) < total:
        heads = selected
    return Inputs(q, k, v, upstream, mask, rows, heads)


def arguments(
    case: Case, leaves: List[torch.Tensor], mask: Optional[torch.Tensor]
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, Dict[str, Any]]:
    """Query, keys, values and keywords of the call."""
    q, k, v = leaves
    keywords: Dict[str, Any] = {
        "attn_mask": None if mask is None else mask[None, None],
        "dropout_p": case.dropout,
        "is_causal": case.causal,
    }
    group = case.heads // case.kv_heads
    if case.expanded:
        k, v = (each.expand(-1, case.heads, -1, -1) for each in (k, v))
    elif group > 1 and "enable_gqa" in (F.scaled_dot_product_attention.__doc__ or ""):
        keywords["enable_gqa"] = True
    elif group > 1:  # before torch 2.5
        k, v = (each.repeat_interleave(group, 1) for each in (k, v))
    return q, k, v, keywords


def select_heads(value: torch.Tensor, heads: Optional[List[int]]) -> torch.Tensor:
    """The compared heads of a (batch, heads, tokens, dim) tensor, as (heads, tokens, dim)."""
    flat = value.flatten(0, 1)
    return flat if heads is None else flat[heads]


def reference_bytes(device: torch.device) -> int:
    """Bytes that the reference may use: a part of what is free, so that a small GPU has room."""
    if device.type != "cuda":
        return BUDGET
    return min(BUDGET, int(torch.cuda.mem_get_info(device)[0]) // FREE_SHARE)


def reference(case: Case, tensors: Inputs) -> Tuple[Dict[str, torch.Tensor], float]:
    """Output, dq, dk and dv of the compared heads in float64, and the lowest log-sum-exp."""
    home = torch.device("cpu") if tensors.q.device.type == "mps" else tensors.q.device
    group = case.heads // case.kv_heads

    def wide(value: torch.Tensor) -> torch.Tensor:
        return select_heads(value, tensors.heads).to(home).double()

    split = tensors.upstream.view(case.batch, case.queries, case.heads, case.head_dim)
    q, upstream = wide(tensors.q), wide(split.transpose(1, 2))
    k, v = (wide(each.repeat_interleave(group, 1)) for each in (tensors.k, tensors.v))
    mask = None if tensors.mask is None else tensors.mask.to(home)
    rows = max(1, reference_bytes(home) // (COPIES * 8 * len(q) * case.keys))
    exact = {name: torch.zeros_like(like) for name, like in zip(PARTS, (q, q, k, v))}
    lowest = torch.zeros(())
    for at in range(0, case.queries, rows):
        span = slice(at, at + rows)
        part = block(case, q[:, span], k, v, upstream[:, span], mask, at)
        exact["output"][:, span], exact["dq"][:, span] = part["output"], part["dq"]
        exact["dk"] += part["dk"]
        exact["dv"] += part["dv"]
        lowest = torch.minimum(lowest, part["lse"].cpu()) if at else part["lse"].cpu()
    if group > 1:
        for name in ("dk", "dv"):
            exact[name] = exact[name].view(-1, group, case.keys, case.head_dim).sum(1)
    return exact, float(lowest)


def block(
    case: Case,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    upstream: torch.Tensor,
    mask: Optional[torch.Tensor],
    at: int,
) -> Dict[str, torch.Tensor]:
    """The contribution of the queries from `at` on; q, k and v are (heads, tokens, dim)."""
    scale = 1.0 / math.sqrt(case.head_dim)
    scores = q @ k.transpose(-1, -2) * scale
    if case.causal:
        later = (
            torch.arange(case.keys, device=q.device)
            > (torch.arange(at, at + q.shape[1], device=q.device)[:, None])
        )
        scores.masked_fill_(later, -math.inf)
    if mask is not None:
        scores.masked_fill_(~mask[at : at + q.shape[1]], -math.inf)
    lse = scores.logsumexp(-1, keepdim=True)
    shares = scores.sub_(lse).exp_()
    output = shares @ v
    d_scores = upstream @ v.transpose(-1, -2)
    d_scores = d_scores.sub_((upstream * output).sum(-1, keepdim=True)).mul_(shares).mul_(scale)
    return {
        "output": output,
        "dq": d_scores @ k,
        "dk": d_scores.transpose(-1, -2) @ q,
        "dv": shares.transpose(-1, -2) @ upstream,
        "lse": lse.min(),
    }
