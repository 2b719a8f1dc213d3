"""Errors of the user's own torch.autograd.Function: its arguments, its outputs, its gradients."""

from __future__ import annotations

import re

from doctor.checks.training.errors.explanation import Explanation
from doctor.facts.raised import Raised

SHAPES = re.compile(
    r"invalid gradient at index (?P<index>\d+) - got (?P<shape>\[.*?\]) but expected"
)
DTYPES = re.compile("same dtype|expected scalar type|dtypes? mismatch")
COUNTS = re.compile(r"incorrect number of gradients \(expected (\d+), got (\d+)\)")


def explain(raised: Raised) -> Explanation | None:
    """None unless the error is one of a function that was observed."""
    observed, message = raised.observed, raised.message
    if (name := observed.get("own backward")) and DTYPES.search(message):
        return Explanation(
            f"the backward pass of {name} runs outside of autocast, with tensors of both dtypes",
            f"Write @torch.amp.custom_fwd(device_type=...) above forward of {name} and "
            "@torch.amp.custom_bwd(device_type=...) above its backward, below @staticmethod, or "
            "convert there: grad.to(weight.dtype).",
        )
    if "own function" not in observed:
        return None
    if match := COUNTS.search(message):
        return _number(observed, int(match[1]), int(match[2]))
    if match := SHAPES.search(message):
        return _shape(observed, int(match["index"]), match["shape"])
    if re.search(r"backward\(\) (takes|missing)", message):
        return _arguments_of_backward(observed)
    if re.search(r"forward\(\) (takes|missing)|^(missing a required|too many pos)", message):
        return _arguments_of_forward(observed)
    if re.search(r"setup_context\(\) (takes|missing)", message):
        return Explanation(
            _defined(observed),
            f"Define setup_context(ctx, inputs, output) of {observed['own function']} as a "
            "@staticmethod: inputs is the tuple of forward's arguments.",
        )
    return _absent(observed, message)


def _defined(observed: dict[str, str]) -> str:
    return f"{observed['own function']} is defined in {observed['defined']}"


def _number(observed: dict[str, str], expected: int, returned: int) -> Explanation:
    name = observed["own function"]
    return Explanation(
        f"forward of {name} ({observed['defined']}) takes {expected} arguments after ctx "
        f"({observed['arguments']}), and its backward ({observed['backward']}) returns "
        f"{returned} gradient{'s' * (returned != 1)}",
        f"Return {expected} values from backward of {name}, one for each argument of forward, in "
        "their order: the gradient of each tensor, and None for what is no tensor or needs none.",
    )


def _shape(observed: dict[str, str], index: int, shape: str) -> Explanation:
    name, arguments = observed["own function"], observed["arguments"].split("; ")
    argument = arguments[index] if index < len(arguments) else f"argument {index}"
    if argument.endswith(f" [{', '.join(reversed(shape.strip('[]').split(', ')))}]"):
        return Explanation(
            f"backward of {name} ({observed['backward']}) returns a gradient {shape} for "
            f"{argument}: it is transposed",
            f"Transpose the gradient in position {index} of backward of {name}: for x @ weight.t() "
            "the gradients are grad @ weight and grad.t() @ x.",
        )
    return Explanation(
        f"backward of {name} ({observed['backward']}) returns a gradient {shape} for {argument}",
        f"Return a gradient of the shape of {argument.partition(' [')[0]} in position {index} of "
        f"backward of {name}: in the order of forward's arguments, and summed over the dimensions "
        "along which forward repeats or broadcasts it, as in (grad * x).sum(0).",
    )


def _arguments_of_backward(observed: dict[str, str]) -> Explanation:
    name, outputs = observed["own function"], int(observed.get("outputs", "1"))
    each = ", ".join(f"grad_{n}" for n in range(outputs)) if outputs > 1 else "grad"
    return Explanation(
        f"forward of {name} ({observed['defined']}) returns {outputs} output"
        f"{'s' * (outputs != 1)}, so backward ({observed['backward']}) gets {outputs} gradient"
        f"{'s' * (outputs != 1)} after ctx",
        f"Define backward(ctx, {each}) of {name}, a @staticmethod with one gradient per output of "
        f"forward, and return one gradient per argument of forward: {observed['inputs']}.",
    )


def _arguments_of_forward(observed: dict[str, str]) -> Explanation:
    name, forward = observed["own function"], observed["forward"]
    context = "" if observed.get("with setup_context") else "ctx and "
    cause = f"forward of {name} ({observed['defined']}) accepts {forward}; apply() passes "
    cause += f"{context}{observed['inputs']} argument{'s' * (observed['inputs'] != '1')}"
    if "self" in forward.split(", "):
        return Explanation(
            cause,
            f"Write @staticmethod above forward and backward of {name}, and ctx as their first "
            "parameter instead of self: apply() makes no instance.",
        )
    if observed.get("with setup_context"):
        return Explanation(
            cause,
            f"Leave ctx out of forward of {name}: a function with setup_context(ctx, inputs, "
            "output) gets it there only.",
        )
    first = "ctx as the first parameter, and then " if not forward.startswith("ctx") else ""
    return Explanation(
        cause,
        f"Fit {name}.apply(...) in {observed['applied'].partition(' (')[0]} to forward of {name}: "
        f"{first}one parameter for each argument of apply(), which takes no keywords.",
    )


def _absent(observed: dict[str, str], message: str) -> Explanation | None:
    name = observed["own function"]
    if "generate_vmap_rule" in message:
        return Explanation(
            _defined(observed),
            f"Set generate_vmap_rule = True in {name}, or give it a staticmethod vmap: torch.func "
            "cannot map over a function of its own otherwise.",
        )
    if "setup_context" in message:
        return Explanation(
            _defined(observed),
            f"Split forward of {name} for torch.func: forward(x) without ctx, and a staticmethod "
            "setup_context(ctx, inputs, output) that saves what backward needs.",
        )
    if "vjp method" in message:
        return Explanation(
            _defined(observed), f"Define backward(ctx, grad) of {name}, as a @staticmethod."
        )
    return None
