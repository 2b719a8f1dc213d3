"""Values that are overwritten, graphs that end or were freed, functions of the user's own."""

from __future__ import annotations

from doctor.checks.training import own_cuts
from doctor.checks.training.errors.explanation import Explanation, Proof, first_of, seen_as
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

STEPPED = (
    "Do not change parameters between a forward pass and its backward pass: call backward() for "
    "every loss first and step the optimizers then, or compute the second loss with a new forward "
    "pass. An nn.Embedding with max_norm renormalizes its table at each call: use weight.clone() "
    "where the table itself is used."
)
IN_PLACE = (
    "Write that line without an in-place change: x = x + y for x += y, torch.cat, torch.stack or "
    "torch.where for x[i] = y, masked_fill for masked_fill_, or work on x.clone()."
)
ANOTHER_LOSS = (
    "Detach what the first loss does not train before it is computed, as in critic(fake.detach()), "
    "compute that part again for the second loss, or pass retain_graph=True there."
)
CALLED = (
    "Return the loss before backward() is called: the doctor calls it. If the code needs a "
    "gradient there on purpose, pass retain_graph=True, or compute the loss that it returns with a "
    "new forward pass."
)
HOOKED = (
    "Let the hook return None: what a hook returns replaces the output, also the result of "
    "dict.setdefault in a lambda. To look at a value, keep it with .detach() and return nothing, "
    "as in lambda module, args, out: kept.update(out=out.detach())."
)


def overwritten(raised: Raised) -> Explanation | None:
    """A value that autograd needs and that was changed after it was saved."""
    for each in raised.all(Saved):
        return Explanation(words(each), STEPPED if each.parameters else IN_PLACE)
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


def graph_of_another_step(raised: Raised) -> Explanation | None:
    """A tensor with a graph that outlives its step."""
    for each in raised.all(KeptGraph):
        if each.where != "copied":
            return Explanation(
                words(each),
                f"Detach {listed(each.names, 3)} where it is made or kept, with .detach(): the "
                "backward() of the step that made it has freed its graph. Compute what is made "
                "only once under torch.no_grad(), or in forward and the loss if it is to be "
                "trained.",
            )
    return None


def changed_leaf(raised: Raised) -> Explanation | None:
    """A parameter that the forward pass changes in place."""
    first = next(iter(raised.operands), None)
    if first is None or not raised.function.endswith("_"):
        return None
    if not first.parameter:
        return Explanation(
            f"{raised.function} writes to a view of a parameter (expand, a slice, view)",
            "Call clone() on the view before it is written to, as in "
            "x = parameter.expand(n, -1).clone(): a new tensor passes the gradient on.",
        )
    return Explanation(
        f"{raised.function} changes {first.parameter} in place",
        f"Change {first.parameter} under torch.no_grad(), after optimizer.step() rather than in "
        "forward. To compute with changed values, make a new tensor: clamp( for clamp_(.",
    )


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
    "overwritten-in-place": overwritten,
    "element0-no-grad": path_ends,
    "graph-freed": first_of(
        seen_as(BackwardCall, ANOTHER_LOSS, other_loss=True),
        seen_as(BackwardCall, CALLED),
        seen_as(Hook, HOOKED, kind="output"),
        seen_as(Hook, HOOKED, kind="input"),
        graph_of_another_step,
    ),
    "leaf-in-place": changed_leaf,
    "function-gradients-number": own_gradients,
    "function-gradient-shape": own_gradients,
}
