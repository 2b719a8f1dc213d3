"""Values that are overwritten, graphs that end or were freed, functions of the user's own."""

from __future__ import annotations

from doctor.checks.training import own_cuts
from doctor.checks.training.errors.explanation import Explanation, Proof
from doctor.checks.training.errors.words import listed, words
from doctor.facts.observations import (
    BackwardCall,
    Hook,
    KeptGraph,
    NoGradFunction,
    OwnFunction,
    Saved,
)
from doctor.facts.raised import Raised


def parameter_changed(raised: Raised) -> Explanation | None:
    """Parameters that change between a forward pass and its backward pass."""
    for each in raised.all(Saved):
        if each.parameters:
            return Explanation(words(each))
    return None


def value_changed(raised: Raised) -> Explanation | None:
    """A value that autograd needs and that was changed after it was saved."""
    for each in raised.all(Saved):
        if not each.parameters:
            return Explanation(words(each))
    return None


def path_ends(raised: Raised) -> Explanation | None:
    """A loss without graph: where the paths to it end."""
    if not raised.cuts:
        return None
    fix = own_cuts.fix(raised.cuts)
    if function := raised.first(NoGradFunction):
        fix = f"Remove the decorator that runs {function.function} without gradients "
        fix += "(torch.no_grad(), or torch.inference_mode()): the loss is computed there."
    return Explanation(own_cuts.clause(raised.cuts), fix)


def backward_of_another_loss(raised: Raised) -> Explanation | None:
    for each in raised.all(BackwardCall):
        if each.other_loss:
            return Explanation(words(each))
    return None


def backward_in_the_loss(raised: Raised) -> Explanation | None:
    for each in raised.all(BackwardCall):
        if not each.other_loss:
            return Explanation(words(each))
    return None


def hook_replaces(raised: Raised) -> Explanation | None:
    """A forward hook whose result, a tensor of an earlier step, takes the place of another."""
    for each in raised.all(Hook):
        if each.kind in ("input", "output"):
            return Explanation(words(each))
    return None


def graph_of_another_step(raised: Raised) -> Explanation | None:
    """A tensor with a graph that outlives its step."""
    for each in raised.all(KeptGraph):
        if each.where == "copied" or raised.all(BackwardCall):
            continue
        names = listed(each.names, 3)
        return Explanation(
            words(each),
            f"Detach {names} where it is made or kept, with .detach(): the backward() of the step "
            "that made it has freed its graph. Compute what is made only once under "
            "torch.no_grad(), or in forward and the loss if it is to be trained.",
        )
    return None


def changed_leaf(raised: Raised) -> Explanation | None:
    """A parameter that the forward pass changes in place."""
    first = next(iter(raised.operands), None)
    if first is None or not first.parameter or not raised.function.endswith("_"):
        return None
    return Explanation(f"{raised.function} changes {first.parameter} in place")


def own_gradients(raised: Raised) -> Explanation | None:
    """The user's own torch.autograd.Function: numbers and shapes of gradients."""
    for each in raised.all(OwnFunction):
        outputs = each.outputs or 1
        gradients = [f"grad_{n}" for n in range(outputs)] if outputs > 1 else ["grad"]
        return Explanation(
            words(each),
            f"Define backward(ctx, {', '.join(gradients)}) of {each.name}, a @staticmethod with "
            f"one gradient for each output of forward, and return {len(each.arguments)} values "
            f"from it, one for each argument ({', '.join(each.arguments)}) in its shape, None "
            "where none is needed: for x @ weight.t() these are grad @ weight and grad.t() @ x.",
        )
    return None


PROOFS: dict[str, Proof] = {
    "parameter-changed-before-backward": parameter_changed,
    "value-changed-in-place": value_changed,
    "path-to-the-loss-ends": path_ends,
    "backward-of-another-loss": backward_of_another_loss,
    "backward-in-the-loss": backward_in_the_loss,
    "hook-replaces-a-tensor": hook_replaces,
    "graph-of-another-step": graph_of_another_step,
    "parameter-changed-in-place": changed_leaf,
    "gradients-of-own-function": own_gradients,
}
