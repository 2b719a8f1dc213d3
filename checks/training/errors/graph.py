"""Errors of autograd: values that are overwritten, graphs that end or were freed."""

from __future__ import annotations

import re
from collections.abc import Callable

from doctor.checks.training import own_cuts
from doctor.checks.training.errors.explanation import Explanation
from doctor.errors.tables import BY_ID
from doctor.facts.raised import Raised


def explain(raised: Raised) -> Explanation | None:
    return next(filter(None, (explainer(raised) for explainer in EXPLAINERS)), None)


def overwritten(raised: Raised) -> Explanation | None:
    """A value that autograd needs and that was changed after it was saved."""
    observed = raised.observed
    if "saved" not in observed:
        return None
    operation = re.sub(r"Backward\d*$", "", observed["operation"])
    saved, changed = observed["saved"], observed.get("changed")
    if not changed:
        return Explanation(
            f"the backward pass of {operation} in {saved} needs a value that was changed since",
            "Look for what changes a value of that line in place after it (x += y, x[i] = y, "
            "relu_, an embedding with max_norm, optimizer.step()), and make it return a new "
            "tensor.",
        )
    cause = f"the backward pass of {operation} in {saved} needs a value that {changed} changes"
    if names := observed.get("parameters"):
        stepped = "Do not change parameters between a forward pass and its backward pass: call "
        stepped += "backward() for every loss first and step the optimizers then, or compute the "
        stepped += "second loss with a new forward pass."
        renewed = f"Do not change {names} between a forward pass and its backward pass. An "
        renewed += "nn.Embedding with max_norm renormalizes its table at each call: use "
        renewed += "weight.clone() where the table itself is used."
        return Explanation(
            f"{cause}; parameters that it changes: {names}",
            stepped if ".step(" in changed else renewed,
        )
    return Explanation(
        cause,
        f"Write {changed.partition(' (')[0]} without an in-place change: "
        "x = x + y for x += y, torch.cat, torch.stack or torch.where for x[i] = y, or work on "
        "x.clone().",
    )


def no_graph(raised: Raised) -> Explanation | None:
    if not raised.cuts or "does not require grad" not in raised.message:
        return None
    fix = own_cuts.fix(raised.cuts)
    if function := raised.observed.get("decorated"):
        fix = f"Remove the decorator that runs {function} without gradients (torch.no_grad(), or "
        fix += "torch.inference_mode()): the loss is computed there."
    return Explanation(own_cuts.clause(raised.cuts), fix)


def hook(raised: Raised) -> Explanation | None:
    if not (hooks := raised.observed.get("hooks")):
        return None
    if raised.error == "TypeError":
        return Explanation(
            f"a hook is registered on {hooks}",
            "Define the hook with one parameter, the gradient: torch calls hook(gradient).",
        )
    return Explanation(
        f"a hook is registered on {hooks}",
        "Return a gradient of the same shape from the hook, or None to leave it as it is.",
    )


def twice(raised: Raised) -> Explanation | None:
    """A graph that was freed: by the code's own backward(), or by the step before."""
    observed = raised.observed
    if "a second time" not in raised.message:
        return None
    if (place := observed.get("calls backward")) and "another loss" in observed:
        return Explanation(
            f"the code calls backward() on another loss in {place}, which frees a graph that the "
            "returned loss uses too",
            "Detach what the first loss does not train before it is computed, as in "
            "critic(fake.detach()), compute that part again for the second loss, or pass "
            f"retain_graph=True in {place.partition(' (')[0]}.",
        )
    if place := observed.get("calls backward"):
        return Explanation(
            f"the code calls backward() in {place}",
            f"Return the loss before backward() is called: leave out {place.partition(' (')[0]}, "
            "the doctor calls it. If the code needs a gradient there on purpose, pass "
            "retain_graph=True, or compute the loss that it returns with a new forward pass.",
        )
    if replacing := observed.get("returned by"):
        return _returned_by_hook(replacing, observed)
    if names := observed.get("of the batch"):
        first = names.partition(",")[0]
        return Explanation(
            f"computed once, with a graph, before the first step: {names}",
            f"Detach {first} where it is made, with .detach(), or compute it under "
            "torch.no_grad(): the first backward() frees its graph, and the second step goes "
            "through it again. If it is to pass a gradient on, compute it in the loss.",
        )
    if with_graph := observed.get("kept"):
        first = with_graph.partition(",")[0]
        container = first.partition("[")[0]
        how = f"{first} where it is kept, {first} = {first}.detach()"
        if container != first:
            how = f"the tensors of {container} where they are kept, each with .detach()"
        return Explanation(
            f"kept from step to step with its graph: {with_graph}",
            f"Detach {how}: backward() of the step that made it has freed its graph. Compute what "
            "is made only once under torch.no_grad(), or in forward if it is to be trained.",
        )
    return None


def _returned_by_hook(hook: str, observed: dict[str, str]) -> Explanation:
    """A forward hook whose result, a tensor of an earlier step, takes the place of another."""
    replaced = observed["replaces"]
    kept = f", {names}," if (names := observed.get("kept")) else ""
    return Explanation(
        f"the forward hook {hook} returns a tensor of an earlier step{kept} which replaces the "
        f"{replaced}",
        f"Let {hook} return None: what a hook returns replaces the {replaced}, also the "
        "result of dict.setdefault in a lambda. To look at a value, keep it with .detach() and "
        "return nothing, as in lambda module, args, out: kept.update(out=out.detach()).",
    )


def leaf(raised: Raised) -> Explanation | None:
    """A parameter that the forward pass changes in place."""
    if "leaf Variable that requires grad" not in raised.message:
        return None
    if "a view of a leaf" in raised.message:
        return Explanation(
            "the tensor that is written to is a view of a parameter (expand, a slice, view)",
            "Call clone() on the view before it is written to, as in x = parameter.expand(n, -1)"
            ".clone(): a new tensor passes the gradient on.",
        )
    name = next((each.parameter for each in raised.operands if each.parameter), "the parameter")
    return Explanation(
        f"{raised.function} changes {name} in place" if raised.function else "",
        f"Change {name} under torch.no_grad() (with torch.no_grad(): ...), after optimizer.step() "
        f"rather than in forward. To compute with changed values, make a new tensor: clamp for "
        "clamp_, x + y for x += y.",
    )


def without_derivative(raised: Raised) -> Explanation | None:
    """An operation that autograd cannot differentiate, such as //."""
    match = re.search(r"derivative for aten::(\w+) is not implemented", raised.message)
    if not match:
        return None
    place = raised.observed.get("without derivative", "")
    where = place.partition(" (")[0] or "the line that calls it"
    if match[1] == "floor_divide":
        return Explanation(
            f"// has no derivative, in {place}" if place else "",
            f"Divide with / in {where}: // rounds down, and its derivative would be 0 everywhere. "
            "Where the number only scales or indexes something, call detach() on it before.",
        )
    return Explanation(
        f"{match[1]} has no derivative, in {place}" if place else "",
        f"Replace {match[1]} in {where} by an operation that has a gradient, or call detach() on "
        "its input where no gradient is needed.",
    )


def no_divisor(raised: Raised) -> Explanation | None:
    """A division of whole numbers by 0, which raises; one of floats gives inf."""
    if "ZeroDivisionError" not in f"{raised.error} {raised.message}":
        return None
    if not (divisor := raised.observed.get("divisor")):
        return None
    return Explanation(
        divisor,
        f"Look at why the divisor in {raised.place or 'that line'} is 0: an empty group, a count "
        "or a length of 0. Clamp it, divisor.clamp(min=1), or leave these elements out; if the "
        "quotient need not be a whole number, divide with /.",
    )


def copied(raised: Raised) -> Explanation | None:
    if not (names := raised.observed.get("with graph")):
        return None
    return Explanation(
        f"attributes with a graph: {names}",
        f"Detach what the model keeps ({names} = value.detach()), or copy it before its first "
        "forward pass.",
    )


def refused_gradient(raised: Raised) -> Explanation | None:
    """A gradient of torch's own operation that does not fit its input."""
    if not (place := raised.observed.get("operation at")):
        return None
    fix = BY_ID["scatter-index-shape"].fix
    if "Scatter" not in raised.message:
        fix = (
            "Look at the shapes and dtypes of the arguments there: the operation accepts them, and "
        )
        fix += "its backward pass does not. expand() them to one shape, and make a new tensor."
    return Explanation(f"the operation is in {place}", fix)


EXPLAINERS: tuple[Callable[[Raised], Explanation | None], ...] = (
    refused_gradient,
    overwritten,
    no_graph,
    hook,
    twice,
    leaf,
    without_derivative,
    no_divisor,
    copied,
)
