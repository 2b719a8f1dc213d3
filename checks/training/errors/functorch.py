"""Errors of torch.func: what vmap, grad and functional_call refuse, and the option that allows it.

https://docs.pytorch.org/docs/stable/func.ux_limitations.html
"""

from __future__ import annotations

import re

from doctor.checks.training.errors.explanation import Explanation
from doctor.facts.raised import Raised

FIXES = (
    (
        r"randomness error mode",
        "Pass randomness='different' to torch.func.vmap, or 'same' for equal draws in every sample "
        "(dropout, rand, bernoulli and normal_ draw numbers), or draw them outside and pass them "
        "in as an argument.",
    ),
    (
        r"vmap over calling \.item\(\)",
        "Keep the value a tensor inside of torch.func.vmap: no .item(), float(), int() or tolist() "
        "there, and no f-string of a tensor.",
    ),
    (
        r"data-dependent control flow",
        "Write the condition with torch.where inside of torch.func.vmap, in place of if, while or "
        "assert on a tensor: each sample would go another way.",
    ),
    (
        r"dynamic shape",
        "Keep the shapes the same for every sample inside of torch.func.vmap: multiply by a mask "
        "or use torch.where in place of x[mask], nonzero, unique or masked_select.",
    ),
    (
        r"vmap: inplace|mutate a captured Tensor|doesn't match the broadcast shape",
        "Write the in-place operation without one (x = x + y, torch.cat, torch.where): the "
        "function of torch.func gets one sample, and must not change a tensor from outside of it. "
        "Pass that tensor in as an argument and return the new one.",
    ),
    (
        r"running_mean or running_var|more than 1 value per channel",
        "Use GroupNorm or LayerNorm in place of BatchNorm under torch.func.vmap, which shows each "
        "call one sample; models that are mapped over with their own batch need "
        "torch.func.replace_all_batch_norm_modules_(model).",
    ),
    (
        r"same size in the mapped dimension",
        "Pass in_dims to torch.func.vmap with the dimension of the samples in each argument, None "
        "for an argument that every sample shares (parameters, a mask).",
    ),
    (
        r"in_dim|no Tensor inputs|at least one Tensor|map over",
        "Pass in_dims to torch.func.vmap in the structure of the arguments, None for each that is "
        "shared or no tensor: in_dims=(None, 0).",
    ),
    (
        r"to return a scalar [Tt]ensor|return a single Tensor|to return a Tensor|has_aux",
        "Let the function that torch.func.grad gets return one scalar tensor (loss.mean()), or "
        "(loss, other) together with has_aux=True; for an output of more values use "
        "torch.func.jacrev or vjp.",
    ),
    (
        r"requires_grad_\(\).*(inside|transform)",
        "Remove requires_grad_() from the function: torch.func.grad differentiates its first "
        "argument (argnums) by itself.",
    ),
    (
        r"same training/eval mode|to be of the same class|to have the same architecture",
        "Give torch.func.stack_module_state models of one class and one mode: call train() on "
        "all, or eval() on all.",
    ),
    (
        r"under vmap transform|that doesn't have storage|functorch",
        "Use operations of torch on the arguments alone inside of torch.func: no .data, numpy() or "
        "torch.tensor(x) of a tensor there.",
    ),
)
"""Texts of a message -> what to do."""
OF_FUNC = re.compile(r"\bvmap\b|functorch|\btorch\.func\b|mutate a captured Tensor|f\(\*args\)")
ABSENT = re.compile(r"has no attribute `(\w+)`")
KEYS = re.compile(r"(?P<kind>Missing|Unexpected) key\(s\): (?P<names>.*?)(?:\n|$)")


def explain(raised: Raised) -> Explanation | None:
    message = raised.message
    if raised.function == "functional_call" and (keys := KEYS.search(message)):
        kind = "lacks" if keys["kind"] == "Missing" else "has too many: "
        return Explanation(
            f"the dict of tensors {kind} {keys['names'].strip(' .')}",
            "Give functional_call the names of named_parameters() and named_buffers() of that very "
            "module: without a prefix such as module., and with strict=False for some of them.",
        )
    if raised.function == "functional_call" and (name := ABSENT.search(message)):
        return Explanation(
            f"the module has no part or parameter {name[1]}",
            "Give functional_call the names of named_parameters() of that very module: a prefix "
            "such as module. or model. does not belong there.",
        )
    if not (OF_FUNC.search(message) or "inside" in raised.observed):
        return None
    fix = next((fix for text, fix in FIXES if re.search(text, message)), None)
    return Explanation("", fix) if fix else None
