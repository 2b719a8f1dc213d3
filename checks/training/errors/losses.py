"""Predictions and targets that a loss of torch refuses."""

from __future__ import annotations

from doctor.checks.training.errors.explanation import (
    Explanation,
    Shape,
    broadcast,
    count,
    shape,
    text,
)
from doctor.facts.raised import Operand, Raised

CLASSES = ("cross_entropy", "nll_loss")
PROBABILITIES = ("binary_cross_entropy_with_logits", "binary_cross_entropy")
VALUES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "gaussian_nll_loss")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")


def explain(raised: Raised) -> Explanation | None:
    """What is wrong in the target; None if the call is no loss, or that is not seen."""
    prediction, target = raised.operand("input"), raised.operand("target")
    if prediction is None or target is None or None in (prediction.shape, target.shape):
        return None
    if prediction.dtype in INTEGERS and target.dtype not in INTEGERS:
        return Explanation(
            f"the first argument is {prediction.dtype}, the second {target.dtype}",
            f"Exchange the arguments: {raised.function}(prediction, target).",
        )
    if raised.function in CLASSES:
        return _classes(prediction, target, raised.function)
    if raised.function in PROBABILITIES:
        return _probabilities(prediction, target)
    return _values(prediction, target) if raised.function in VALUES else None


def _classes(prediction: Operand, target: Operand, function: str) -> Explanation | None:
    """Logits [N, C, ...] with class indices [N, ...] of int64."""
    return _kind_of_classes(prediction, target) or _order_of_classes(
        shape(prediction), shape(target), function
    )


def _kind_of_classes(prediction: Operand, target: Operand) -> Explanation | None:
    logits, labels = shape(prediction), shape(target)
    integers = target.dtype in INTEGERS
    if len(logits) > 1 and labels == (logits[0], *logits[2:]):
        if target.dtype in ("int64", "uint8"):
            return None
        other = "" if integers else " For values that are no classes use mse_loss."
        shaped = "" if integers else " and has the shape of class indices"
        return Explanation(
            f"the target is {target.dtype}{shaped}",
            f"Convert the labels with labels.long(): class indices are int64.{other}",
        )
    if labels == logits and integers:
        return Explanation(
            f"the target has the shape of the logits, {text(labels)}, and is {target.dtype}",
            "Pass class indices, labels.argmax(1), or make the one-hot labels probabilities, "
            "labels.float().",
        )
    return None


def _order_of_classes(logits: Shape, labels: Shape, function: str) -> Explanation | None:
    if len(labels) == len(logits) > 1 and labels[1] == 1 and labels[2:] == logits[2:]:
        return Explanation(
            f"the target has a dimension of 1 too many, {text(labels)}",
            "Remove it with labels.squeeze(1), and convert with .long() unless they are int64: "
            f"class indices have the shape {text((logits[0], *logits[2:]))}.",
        )
    if len(logits) == 3 and labels == (logits[2], logits[0]):
        return Explanation(
            f"the first two dimensions of the target are exchanged, {text(labels)}: the logits "
            f"have {logits[0]} samples of {logits[2]} positions",
            "Put the samples first in the labels, as in the input: pad_sequence(labels, "
            "batch_first=True, padding_value=-100) where the batch is made, or "
            "labels.transpose(0, 1).",
        )
    if len(logits) > 2 and labels == logits[:-1]:
        order = "transpose(1, 2)" if len(logits) == 3 else "movedim(-1, 1)"
        moved = (logits[0], logits[-1], *logits[1:-1])
        return Explanation(
            f"the classes come last in the logits, {text(logits)}",
            f"Put the classes into the second dimension, logits.{order}, which gives "
            f"{text(moved)}, or flatten both: logits.flatten(0, -2) with labels.flatten().",
        )
    if len(logits) == 3 and len(labels) == 1 and labels[0] == logits[1] != logits[0]:
        return Explanation(
            f"the samples are in the second dimension of the prediction, {text(logits)}",
            "Take the last layer of a recurrent state, h[-1], of (layers, batch, features): "
            "nn.LSTM returns (output, (h, c)), nn.GRU (output, h). An output with the time first "
            "becomes (batch, ...) with batch_first=True.",
        )
    return _numbers(logits, labels, function) if len(logits) == 2 else None


def _numbers(logits: Shape, labels: Shape, function: str) -> Explanation | None:
    """Another number of predictions than of labels."""
    if len(labels) > 1 and count(labels) == logits[0]:
        return Explanation(
            f"the logits are flattened to {text(logits)}, the target is {text(labels)}",
            "Flatten the target too: labels.flatten().",
        )
    if len(labels) != 1 or labels[0] == logits[0]:
        return None
    if labels[0] and logits[0] > labels[0] and logits[0] % labels[0] == 0:
        return _rows(logits[0], labels[0])
    return Explanation(
        f"{logits[0]} predictions against {labels[0]} labels",
        f"Make the numbers equal: {function} needs one label for each prediction. Compare the "
        "length of the labels with that of the inputs, and cut or shift both alike.",
    )


def _rows(rows: int, labels: int) -> Explanation:
    """A whole number of predictions for each label."""
    return Explanation(
        f"{rows} predictions against {labels} labels, {rows // labels} for each",
        "If each sample has one label, a view(-1, n) before the last layer has put a part of its "
        "features into the batch: flatten(1) or view(len(x), -1) keeps the batch. If the model "
        "predicts each token or pixel, pass one label for each of them.",
    )


def _probabilities(prediction: Operand, target: Operand) -> Explanation | None:
    values, labels = shape(prediction), shape(target)
    cast = "" if target.dtype not in INTEGERS else " and .float()"
    if values == (*labels, 1):
        return Explanation(
            f"the prediction has one column, {text(values)}, the target none, {text(labels)}",
            f"Remove the column, prediction.squeeze(-1){cast and ' with labels.float()'}, or add "
            f"it to the labels: labels.unsqueeze(1){cast}.",
        )
    if labels == (*values, 1):
        return Explanation(
            f"the target has one column, {text(labels)}, the prediction none, {text(values)}",
            f"Remove the column: labels.squeeze(1){cast}.",
        )
    if len(values) == len(labels) and values[:-1] == labels[:-1] and values != labels:
        return _columns(prediction, target)
    if values == labels and target.dtype in INTEGERS:
        return Explanation(
            f"the target is {target.dtype}",
            "Convert the labels with labels.float(): this loss takes a probability for each value.",
        )
    if len(labels) == 1 and len(values) == 2 and labels[0] == values[0]:
        return Explanation(
            f"{values[1]} values for each sample, one label",
            "Use cross_entropy for one class of several, with labels.long(), or give the last "
            "layer one output for yes or no.",
        )
    return None


def _values(prediction: Operand, target: Operand) -> Explanation | None:
    values, labels = shape(prediction), shape(target)
    if broadcast(values, labels) is not None:
        return None
    if len(values) == 2 and len(labels) == 1 and values[0] == labels[0]:
        return Explanation(
            f"{values[1]} values for each sample, one target",
            "For a regression give the last layer one output (out_features=1) and compare "
            "prediction.squeeze(1); for classes use CrossEntropyLoss with labels.long().",
        )
    if len(values) == len(labels) and values[:-1] == labels[:-1]:
        return _columns(prediction, target)
    return Explanation(
        f"the prediction is {text(values)}, the target {text(labels)}",
        "Give both the same shape: a loss of values compares them one by one.",
    )


def _columns(prediction: Operand, target: Operand) -> Explanation:
    have, want = shape(prediction)[-1], shape(target)[-1]
    return Explanation(
        f"{have} values for each sample, {want} targets",
        f"Give the last layer {want} outputs (out_features={want}), as many as the targets have.",
    )
