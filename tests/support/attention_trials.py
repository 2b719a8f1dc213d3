"""Attention trials in real processes, with faults planted in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import preloaded
import recorded
import recorded_parts

from doctor._util.records import Unknown
from doctor.checks.numerics import attention as checks
from doctor.collect.attention_trial import try_attention
from doctor.collect.children import Children
from doctor.collect.torch_child import TorchChild
from doctor.facts.facts import Facts
from doctor.facts.load import Attention, Trial
from doctor.job.job import Chosen
from doctor.job.run_options import RunOptions
from doctor.judge.check import Finding
from doctor.judge.engine import examine

CHOSEN = Chosen("bf16", "asked")

SHIM = """
    import os, signal, time
    import torch
    import torch.nn.functional as F
    real = F.scaled_dot_product_attention
    NAMES = ("flash", "mem_efficient", "cudnn", "math")

    def shim(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, **more):
        on = [n for n in NAMES if getattr(torch.backends.cuda, n + "_sdp_enabled")()]
        backend = on[0] if len(on) == 1 else ""
        offered = backend in ("flash", "math") and not (backend == "flash" and dropout_p)
        masked, dtype = attn_mask is not None, q.dtype
        if offered and {condition}:
            {fault}
        return real(q, k, v, attn_mask, dropout_p, is_causal, **more)

    shim.__doc__ = real.__doc__
    F.scaled_dot_product_attention = shim
"""

WRONG_DQ = "q = q + (q - q.detach()) * 0.5"

Interpret = Callable[..., str]


def shimmed(fault: str, condition: str = "True") -> str:
    return SHIM.replace("{fault}", fault).replace("{condition}", condition)


def on_cpu(python: str = "", quick: bool = False, **job: Any) -> Facts:
    facts = recorded.machines()["cpu_only"]
    interpreter = msgspec.structs.replace(
        recorded_parts.interpreter(), path=python or preloaded.python()
    )
    return facts.with_(
        job=msgspec.structs.replace(facts.job, **job),
        options=RunOptions(quick=quick),
        interpreter=interpreter,
        attention=None,
    )


def attention_of(
    children: Children, facts: Facts, kind: type[TorchChild] = TorchChild
) -> Attention:
    """The trials in a process of their own."""
    interpreter = facts.interpreter
    assert not isinstance(interpreter, Unknown)
    child = kind(children, interpreter.path)
    attention = attention_in(child, facts)
    child.end()
    return attention


def attention_in(child: TorchChild, facts: Facts) -> Attention:
    attention = try_attention(child, facts, "cpu", CHOSEN, lambda stage: None)
    assert isinstance(attention, Attention), attention
    return attention


def judged(facts: Facts, attention: Attention) -> Finding:
    (finding,) = examine(checks.CHECKS, facts.with_(attention=attention))
    return finding


def by_key(attention: Attention) -> dict[tuple[str, str, str], Trial]:
    return {(trial.case, trial.dtype, trial.backend): trial for trial in attention.trials}
