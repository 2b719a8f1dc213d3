"""Values that are overwritten, graphs that end or were freed, functions of the user's own."""

from __future__ import annotations

from doctor.checks.training import own_cuts
from doctor.checks.training.errors.explanation import Explanation, Proof, first_of, seen_as
from doctor.checks.training.errors.words import listed, words
from doctor.facts.observations import BackwardCall, KeptGraph, OwnFunction, Saved
from doctor.facts.raised import Raised


def overwritten(*, of_parameters: bool) -> Proof:
    """A value that autograd needs and that was changed after it was saved."""

    def proof(raised: Raised) -> Explanation | None:
        saved = [each for each in raised.all(Saved) if bool(each.parameters) is of_parameters]
        return Explanation(words(saved[0])) if saved else None

    return proof


def path_ends(raised: Raised) -> Explanation | None:
    """A loss without graph: where the paths to it end."""
    if not raised.cuts:
        return None
    return Explanation(own_cuts.clause(raised.cuts), own_cuts.fix(raised.cuts))


def graph_of_another_step(raised: Raised) -> Explanation | None:
    """A tensor with a graph that outlives its step."""
    for each in raised.all(KeptGraph):
        if each.where == "once":
            return Explanation(
                words(each),
                f"Compute {listed(each.names, 3)} anew in each forward pass, and keep no result of "
                "it: the first backward() frees its graph. Only where the weights that it is made "
                "of are not to be trained by it, compute it once under torch.no_grad().",
            )
        if each.where != "copied":
            return Explanation(
                words(each),
                f"Detach {listed(each.names, 3)} where it is made or kept, with .detach(): the "
                "backward() of the step that made it has freed its graph. Compute what is made "
                "only once under torch.no_grad(), or in forward and the loss if it is to be "
                "trained. A hook that keeps a value returns None, as dict.setdefault does not.",
            )
    return None


def losses_share_a_graph(raised: Raised) -> Explanation | None:
    """Two losses of one step, each with its backward()."""
    for each in raised.all(BackwardCall):
        if each.shared:
            name = each.shared[0]
            return Explanation(
                f"two losses are computed from {listed(each.shared, 3)}, and the first backward() "
                f"frees that graph before the one in {each.line}",
                f"Detach {name} in the loss that does not train what computes {name}: that of a "
                f"discriminator takes {name}.detach(). If both losses train it, add them and call "
                "backward() once.",
            )
    return None


def changed_leaf(raised: Raised) -> Explanation | None:
    """A parameter that the forward pass changes in place."""
    first = next(iter(raised.operands), None)
    if first is None or not first.parameter or not raised.function.endswith("_"):
        return None
    return Explanation(
        f"{raised.function} changes {first.parameter} in place",
        f"Change {first.parameter} under torch.no_grad(), after optimizer.step() rather than in "
        "forward. To compute with changed values, assign a new tensor and use it below: x = "
        "parameter.clamp(...) for parameter.clamp_(...).",
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
    "parameter-changed-before-backward": overwritten(of_parameters=True),
    "value-changed-in-place": overwritten(of_parameters=False),
    "element0-no-grad": path_ends,
    "backward-in-the-loss": first_of(losses_share_a_graph, seen_as(BackwardCall)),
    "graph-of-another-step": graph_of_another_step,
    "parameter-changed-in-place": changed_leaf,
    "gradients-of-own-function": own_gradients,
}
