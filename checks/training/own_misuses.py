"""Loss functions of torch whose input or target is not of the kind that they expect."""

from __future__ import annotations

from typing import NamedTuple

from doctor.errors.cause import Cause
from doctor.errors.tables import symptoms_inputs
from doctor.facts.own_model import Trend


class Shown(NamedTuple):
    """A fault that steps show: what was observed, its fix, and its row, if it has one."""

    text: str
    fix: str
    row: Cause | None = None


def misused(trend: Trend) -> Shown | None:
    """The first one."""
    misuse = next((each for each in trend.misused if each.kind in MISUSES), None)
    if misuse is None:
        return None
    text, known = MISUSES[misuse.kind]
    shapes = " and ".join(str(list(shape)) for shape in misuse.shapes)
    text = text.format(function=misuse.function, shapes=shapes)
    return Shown(text, known) if isinstance(known, str) else Shown(text, known.fix, known)


def fix_of_last_activation(trend: Trend | None) -> str:
    """The fix for an activation that cannot reach the targets, which comes before any other of a
    gradient that is 0 there; "" if there is none."""
    kinds = {each.kind for each in trend.misused} if trend else set()
    return symptoms_inputs.BOUNDED.fix if "bounded" in kinds else ""


MISUSES: dict[str, tuple[str, str | Cause]] = {
    "softmax": (
        "{function} gets the output of a softmax, or a mean of such, and applies log_softmax "
        "itself; required: logits",
        symptoms_inputs.SOFTMAX_TWICE,
    ),
    "sigmoid": (
        "{function} gets the output of a sigmoid, and applies it itself; required: logits",
        symptoms_inputs.SOFTMAX_TWICE,
    ),
    "relu": (
        "{function} gets the output of a ReLU, so that no logit is below 0 and a class whose logit "
        "is 0 gets no gradient; required: logits",
        "Remove the ReLU behind the last layer, and let the loss apply the activation.",
    ),
    "no log-probabilities": (
        "the input of {function} is not the output of log_softmax: its exponentials do not sum to "
        "1 in each row; required: log-probabilities",
        symptoms_inputs.NO_LOGARITHMS,
    ),
    "broadcast": (
        "{function} compares every row with every target: it broadcasts the shapes {shapes}; "
        "required: equal shapes",
        symptoms_inputs.AGAINST_ALL,
    ),
    "one row": (
        "{function} compares one row, which was computed of all samples, with the target of each: "
        "it broadcasts the shapes {shapes}; required: equal shapes",
        "Keep the dimension of the samples: take the mean or the sum in the model over the steps "
        "or places, dim=1 where the samples come first, and not over dim=0. A view takes the size "
        "of one sample: x.flatten(1), not x.view(-1, n) with an n of all samples.",
    ),
    "repeated": (
        "{function} compares one target with several predictions of its sample, or one prediction "
        "with several targets: it broadcasts the shapes {shapes}, of which torch warns; required: "
        "equal shapes",
        "Give both the same shape. Where one prediction per sample is meant, give the last layer "
        "one output for each value of the target, or take the one that the target belongs to: "
        "output.gather(1, index[:, None]). Where each prediction is to learn the same target, say "
        "so: target.expand_as(output). One target per sample may lack a reduction: "
        "log_prob(action).sum(-1, keepdim=True).",
    ),
    "over samples": (
        "a softmax over the samples (dim 0) takes the place of one over the classes: the loss "
        "reads the values of the labels from it in {function}; required: each sample's values "
        "sum to 1",
        symptoms_inputs.OVER_SAMPLES,
    ),
    "targets": (
        "{function} gets targets outside of [0, 1]; required: probabilities",
        symptoms_inputs.TARGETS,
    ),
    "bounded": (
        "the input of {function} is the output of an activation (ReLU, sigmoid, tanh, softplus or "
        "softmax) that cannot reach at least 10 % of the targets",
        symptoms_inputs.BOUNDED,
    ),
    "several": (
        "rows of the targets of {function} have several classes; required: one class, or "
        "probabilities that sum to 1",
        "Use binary_cross_entropy_with_logits where classes occur together, and a softmax nowhere; "
        "where one class is meant, pass its index.",
    ),
    "signs": (
        "the targets of {function} are not -1 and 1; required: these",
        "Turn labels of 0 and 1 into signs: 2 * labels - 1. A target of 0 has no sign, and its "
        "sample trains nothing or the wrong thing.",
    ),
    "no log target": (
        "the targets of {function} are no logarithms, as log_target=True says",
        "Pass the target as probabilities (softmax), or as log_softmax with log_target=True.",
    ),
    "padding": (
        "{function} is taken over padding, too: at least a tenth of its targets fill rows up; "
        "required: targets alone",
        "Leave padding out of the loss: ignore_index=PAD, labels of -100 there, or "
        "reduction='none' and (loss * mask).sum() / mask.sum(). The mean is that of padding "
        "otherwise, which is easy to predict.",
    ),
    "reduced": (
        "a value is reduced to one number for all samples ({function}) before it is multiplied by "
        "{shapes}, a mask of the samples",
        "Multiply first and reduce afterwards: reduction='none' in the loss, or a sum over the "
        "features alone (dim=-1), then (value * mask).sum() / mask.sum(). Otherwise each sample "
        "gets the number of all, and the mask leaves nothing out.",
    ),
    "cosines": (
        "{function}; required: logits that can tell the classes apart",
        "Divide cosines by a temperature, logits / 0.07, or multiply them by a scale such as 1 / "
        "0.07 = 14.3 (CLIP learns its logarithm: logits * logit_scale.exp(), from ln 14.3).",
    ),
    "negated": (
        "the loss is the negative of {function}, which a step then raises; required: the loss that "
        "is to fall",
        "Remove the minus sign in front of the loss: the optimizer minimizes what is returned.",
    ),
}
"""Kind of a misuse -> its description, and its fix or the row that has it."""
