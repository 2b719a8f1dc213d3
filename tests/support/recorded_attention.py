"""Attention trials of recorded machines.

The one of the H200 is made from the published case of pytorch#196678; no card was at hand.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from doctor._util.records import Ended
from doctor.facts.facts import Facts
from doctor.facts.load import Attention, AttentionCase, Backend, Implementation, Trial

BACKENDS: tuple[Backend, ...] = ("flash", "mem_efficient", "cudnn", "math")
DTYPES: tuple[Literal["bf16", "fp16"], ...] = ("bf16", "fp16")
ERRORS = {
    "bf16": {"output": 2.2e-3, "dq": 2.4e-3, "dk": 3.1e-3, "dv": 3.1e-3},
    "fp16": {"output": 2.6e-4, "dq": 3.1e-4, "dk": 4.0e-4, "dv": 4.0e-4},
}
NO_BACKEND = "RuntimeError: No viable backend for scaled_dot_product_attention was found."
NO_MASK = "Flash Attention does not support non-null attn_mask."
NO_GROUPS = "Both fused kernels require query, key and value to have the same num_heads."
NO_512 = "head_dim should be no more than 256"
Key = tuple[str, str, str]
"""Case, dtype, backend."""


def case(name: str, *shape: int, **fields: Any) -> AttentionCase:
    batch, heads, kv_heads, queries, keys, head_dim = shape
    return AttentionCase(
        name=name,
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        queries=queries,
        keys=keys,
        head_dim=head_dim,
        **fields,
    )


def cases(long: int = 704) -> tuple[AttentionCase, ...]:
    negative: dict[str, Any] = {"trigger": "pytorch-196678"}
    finite: dict[str, Any] = {"judged": "finite"}
    every = "boolean, all True"
    hidden, row = "boolean, one key in four hidden", "boolean, one row all False"
    return (
        case("causal", 2, 2, 2, 160, 160, 64, causal=True),
        case("no mask", 2, 2, 2, 160, 160, 64),
        case("boolean mask", 2, 2, 2, 160, 160, 64, mask=hidden),
        case("very negative logits, mask", 1, 1, 1, long, long, 64, mask=every, **negative),
        case("very negative logits", 1, 1, 1, long, long, 64, **negative),
        case("one query", 1, 28, 4, 1, 193, 128, trigger="pytorch-193893"),
        case("broadcast keys", 1, 4, 1, 33, 97, 512, mask=hidden, trigger="pytorch-191937"),
        case("fully masked row", 1, 2, 2, 64, 64, 64, mask=row, trigger="pytorch-103749", **finite),
        case(
            "dropout", 1, 2, 2, 128, 128, 64,
            causal=True, dropout=0.125, trigger="pytorch-163903", **finite,
        ),
    )  # fmt: skip


def refusal(each: AttentionCase, backend: str, device: str) -> str | None:
    """Why a backend does not take a case there."""
    if device == "cpu" and backend in ("mem_efficient", "cudnn"):
        return NO_BACKEND
    if device == "cpu":
        return "Both fused kernels do not support non-zero dropout." if (
            each.dropout and backend == "flash"
        ) else None  # fmt: skip
    if each.mask and backend == "flash":
        return NO_MASK
    if each.head_dim > 256 and backend in ("flash", "cudnn"):
        return NO_512
    return NO_GROUPS if each.heads != each.kv_heads and backend == "mem_efficient" else None


def attention(
    device: str = "cuda:0",
    first: str = "flash",
    faults: dict[Key, dict[str, Any]] | None = None,
    **fields: Any,
) -> Attention:
    """A trial in which every backend is right but for `faults`; `first` is the first choice."""
    listed: tuple[AttentionCase, ...] = fields.pop("cases", cases(192 if device == "cpu" else 704))
    order = (first, *(backend for backend in BACKENDS if backend not in (first, "cudnn")))
    trials, defaults, lowest = [], {}, {}
    for each in listed:
        for dtype in DTYPES:
            group = f"{each.name}/{dtype}"
            takes = [name for name in order if refusal(each, name, device) is None]
            defaults[group] = takes[0]
            lowest[group] = -114.6 if "negative" in each.name else 4.9
            for backend in BACKENDS:
                refused = refusal(each, backend, device)
                known: dict[str, Any] = {"ended": Ended(how="ok", seconds=0.002)}
                if refused:
                    known["refused"] = refused
                elif each.judged == "error":
                    known["errors"] = ERRORS[dtype]
                known |= (faults or {}).get((each.name, dtype, backend), {})
                trials.append(Trial(backend=backend, dtype=dtype, case=each.name, **known))
    return Attention(
        device=device,
        cases=listed,
        trials=tuple(trials),
        defaults=defaults,
        lowest_lse=lowest,
        seconds=fields.pop("seconds", 2.0),
        **fields,
    )


def nan_in_dq() -> Attention:
    """cuDNN comes first, and every value of dq is NaN where logits are far below 0."""
    bad = {"nonfinite": {"dq": 45056}}
    faults: dict[Key, dict[str, Any]] = {
        (name, dtype, "cudnn"): bad | {"errors": ERRORS[dtype] | {"dq": "nan"}}
        for name in ("very negative logits, mask", "very negative logits")
        for dtype in DTYPES
    }
    return attention(first="cudnn", faults=faults)


def wrong_in_dq() -> Attention:
    """The first choice has wrong gradients of the queries on ordinary causal attention."""
    off = {"errors": ERRORS["bf16"] | {"dq": 0.5}}
    return attention(first="cudnn", faults={("causal", "bf16", "cudnn"): off})


def crash_in_flash() -> Attention:
    """The process died in the first choice, and the next one went on."""
    died = Ended(how="signal", detail="SIGSEGV inside causal/bf16/flash", code=11)
    fields: dict[str, Any] = {"ended": died, "errors": {}}
    return attention(faults={("causal", "bf16", "flash"): fields})


def machines() -> dict[str, Facts]:
    """Name of the file -> its facts."""
    from recorded_parts import H100, OK, TORCH_2_11, TORCH_2_15, cuda_view, host, job, machine

    own = case("your shape", 4, 32, 32, 2048, 2048, 128, causal=True, job=True)
    listed = cases()
    shape = attention(
        cases=(listed[0], own, *listed[1:]),
        first="cudnn",
        faults={("your shape", "bf16", "cudnn"): {"nonfinite": {"dk": 12, "dv": 12}}},
    )
    tried = (
        Implementation(name="eager", ended=OK, error=4.9e-3, grad_error=6.0e-3),
        Implementation(name="sdpa", ended=OK, error=4.9e-3, grad_error=6.0e-3),
        Implementation(name="flash_attention_2", ended=OK, error=4.9e-3, grad_error=0.4),
    )
    cut = "left out after 4 processes were lost; the last: SIGSEGV inside causal/bf16/flash"
    return {
        "attention_wrong": machine(H100, torch=TORCH_2_15, attention=wrong_in_dq()),
        "attention_crash": machine(H100, torch=TORCH_2_15, attention=crash_in_flash()),
        "attention_own_shape": machine(
            H100,
            torch=TORCH_2_15,
            job=job(attention=(4, 32, 2048, 128)),
            attention=shape,
        ),
        "attention_switched_off": machine(
            H100,
            torch=TORCH_2_11,
            host=host(env={"TORCH_CUDNN_SDPA_DEPRIORITIZED": "1"}),
            cuda=cuda_view((H100,)),
            attention=msgspec.structs.replace(nan_in_dq(), defaults=attention().defaults),
        ),
        "attention_implementation": machine(
            H100,
            torch=TORCH_2_15,
            attention=msgspec.structs.replace(attention(first="cudnn"), implementations=tried),
        ),
        "attention_unfinished": machine(
            H100,
            torch=TORCH_2_15,
            attention=msgspec.structs.replace(attention(), trials=(), defaults={}, cut_short=cut),
        ),
    }
