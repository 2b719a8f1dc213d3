"""How the loss functions of torch are called in a step: classes, and inputs of the wrong kind."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch.overrides import TorchFunctionMode

from ..foreign import Arguments, Foreign, Function, Options, Types, observing, places
from ..subject import subjects
from . import (
    attention_calls,
    norm_calls,
    padded_targets,
    recurrent_calls,
    sample_axes,
    scale_calls,
)

ELEMENTWISE = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
"""Losses of two tensors of the same shape, which torch broadcasts otherwise."""
LIKELIHOODS = ("gaussian_nll_loss", "poisson_nll_loss", "kl_div", "soft_margin_loss")
"""The same of a target and a parameter of its distribution, or a score."""
TO_MINIMIZE = ("cross_entropy", "nll_loss", *ELEMENTWISE)
"""Losses that a training minimizes; those of an adversary may be negated."""
OF_LOGARITHMS = ("kl_div", "ctc_loss")
"""Losses whose input is the logarithm of probabilities."""
OF_SIGNS = {"soft_margin_loss": 1, "hinge_embedding_loss": 1, "cosine_embedding_loss": 2,
            "margin_ranking_loss": 2}  # fmt: skip
"""Losses whose targets are -1 and 1 -> the place of the target."""
POSITIVE = 0.01
"""A logarithm of a probability in half precision may be that far above 0."""
ACTIVATIONS = {
    "cross_entropy": ("SoftmaxBackward0", "softmax"),
    "binary_cross_entropy_with_logits": ("SigmoidBackward0", "sigmoid"),
}
"""A loss that applies an activation to its input -> the node in the graph if it was applied before,
and its name."""
RANGES = {"Relu": (0.0, math.inf), "Sigmoid": (0.0, 1.0), "Tanh": (-1.0, 1.0),
          "Softplus": (0.0, math.inf), "Softmax": (0.0, 1.0)}  # fmt: skip
"""Node of an activation, without its "Backward0" -> the values that it can give."""
BEYOND = 0.1
"""Share of the targets out of that range, by more than `MARGIN`. Our own numbers."""
MARGIN = 0.01
RESHAPING = ("ToCopy", "View", "UnsafeView", "ReshapeAlias", "Transpose", "Permute", "Clone", "T",
             "Squeeze", "Unsqueeze", "Slice", "Select", "Alias")  # fmt: skip
"""Nodes through which a value passes unchanged, without their "Backward0"."""
PRODUCTS = ("mul", "rmul", "imul")
SCALED = ("Mul", "Neg", "Add", "Sub", *RESHAPING)
"""Of numbers. A quotient of two sums is a number for all samples on purpose."""
REDUCED = re.compile(r"(?:Sum|Mean)Backward0$|(?:Loss\w*|WithLogits)Backward0$")
"""Nodes that give one number for all samples: torch names the sum over a dimension SumBackward1."""
MOST_BY_CHANCE = 4
ROWS = 64
"""Rows of log-probabilities whose sums are computed."""
TOLERANCE = 0.1
"""Of the sum of a row of probabilities; bf16 rounds each to 3 digits."""


class LossCalls(TorchFunctionMode):
    """The number of classes of every cross entropy, and what is wrong in the inputs of a loss."""

    def __init__(self, module: torch.nn.Module, batch: Foreign = None) -> None:
        super().__init__()
        self._module = module
        self._padding = padded_targets.PaddedTargets(module, batch)
        self.classes: List[int] = []
        self.misused: Dict[str, Dict[str, Any]] = {}
        """Function -> a doctor.facts.own_model.Misuse."""
        self.results: List[Tuple[str, float]] = []
        """Each call of a function in `TO_MINIMIZE` with a scalar result."""
        self.norms: Dict[int, List[str]] = {1: [], 2: []}
        """Calls of norms over one value, and over two."""
        self.factor: Optional[float] = None
        """The loss of the step as a multiple of the only function that it is made of."""
        self.attention = attention_calls.AttentionCalls(module)
        self.recurrent = recurrent_calls.RecurrentCalls(module)
        self.scales = scale_calls.ScaleCalls()
        self._samples = subjects.first_dimension(batch) or 0
        self._over_samples = sample_axes.OverSamples(self._samples)

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = kwargs or {}
        name = observing.function_name(func)
        observing.attempt(lambda: self._note_inputs(name, args, options), None)
        result = func(*args, **options)
        observing.attempt(lambda: self._note_result(name, result), None)
        observing.attempt(lambda: self._over_samples.note(name, args, options, result), None)
        observing.attempt(lambda: self.scales.note(name, args, result), None)
        return result

    def _note_inputs(self, name: str, args: Arguments, options: Options) -> None:
        inputs = [*args, *(options[key] for key in ("input", "target") if key in options)][:2]
        if len(inputs) == 2 and all(isinstance(each, torch.Tensor) for each in inputs):
            if name == "cross_entropy":
                shape = inputs[0].shape
                self.classes.append(int(shape[1] if len(shape) > 1 else shape[0]))
                if text := self.scales.scaled(inputs[0]):
                    function = "%s gets %s" % (name, text)
                    self.misused[text] = {"function": function, "kind": "cosines", "shapes": []}
            kind = self._misuse(name, inputs, reduced=options.get("reduction") != "none")
            if kind := kind or domain(name, inputs[0], args, options):
                shapes = [list(each.shape) for each in inputs]
                self.misused[name] = {"function": name, "kind": kind, "shapes": shapes}
            elif self._padding.counted(name, inputs[0], inputs[1], options):
                self.misused[name] = {"function": name, "kind": "padding", "shapes": []}
        if size := norm_calls.values_of_statistics(name, args, options):
            self.norms[size].append(norm_calls.described(name, args, self._module))
        if name.strip("_") in PRODUCTS:
            self._note_product([each for each in args if isinstance(each, torch.Tensor)])
        self._note_labels(name, args, options)
        self.attention.note(name, args, options)
        self.recurrent.note(name, args)

    def _misuse(self, name: str, inputs: Sequence[torch.Tensor], reduced: bool) -> str:
        """`misuse` of these inputs, or what only the number of samples or the values show."""
        kind = misuse(name, inputs[0], inputs[1], reduced=reduced)
        if not kind and reduced and name in ELEMENTWISE:
            kind = "one row" * sample_axes.is_one_row(inputs[0], inputs[1], self._samples)
            kind = kind or "repeated" * is_repeated(inputs[0].shape, inputs[1].shape, self._samples)
        if name == "cross_entropy" and are_probabilities(observing.plain(inputs[0])):
            kind = "softmax"
        return kind

    def _note_labels(self, name: str, args: Arguments, options: Options) -> None:
        """A softmax over the samples, from which the values of the labels are read."""
        if shape := self._over_samples.read(name, args, options):
            function = "%s, of %s" % (name.strip("_"), list(shape))
            self.misused[function] = {"function": function, "kind": "over samples", "shapes": []}

    def _note_product(self, pair: Sequence[torch.Tensor]) -> None:
        """One number for all samples that is multiplied by a mask of them."""
        for value, weights in (pair, pair[::-1]) if len(pair) == 2 else ():
            if value.dim() or not value.requires_grad or not self._masks_samples(weights):
                continue
            if node := reduced_by(value):
                line = "%s, in %s" % (node.partition("Backward")[0], places.innermost()[0][0])
                shapes = [list(weights.shape)]
                self.misused[line] = {"function": line, "kind": "reduced", "shapes": shapes}

    def _masks_samples(self, weights: torch.Tensor) -> bool:
        """Whether it has a 0 or a 1 for each sample, and both."""
        if weights.requires_grad or not list(weights.shape) == [self._samples] != [1]:
            return False
        return bool(torch.unique(observing.plain(weights)).tolist() == [0, 1])

    def _note_result(self, name: str, result: Foreign) -> None:
        if name in TO_MINIMIZE and isinstance(result, torch.Tensor) and result.numel() == 1:
            self.results.append((name, float(observing.plain(result))))

    def compare(self, loss: float) -> None:
        """Note a loss that is the negative of the only function that it is made of."""
        if len(self.results) == 1:
            name, value = self.results[0]
            self.factor = loss / value if value else None
            if value > 0 and math.isclose(loss, -value, rel_tol=1e-3):
                self.misused[name] = {"function": name, "kind": "negated", "shapes": []}


def misuse(name: str, value: torch.Tensor, target: torch.Tensor, *, reduced: bool = True) -> str:
    """What is wrong in the two inputs of this loss, as Misuse.kind; "" if nothing is.

    `reduced`: to one number; without it, all pairs of two sets may be compared on purpose.
    """
    if name in ACTIVATIONS:
        node, activation = ACTIVATIONS[name]
        if made_by(value) in (node, "ReluBackward0"):
            return "relu" if made_by(value) != node else activation
    if name == "binary_cross_entropy_with_logits":
        target = observing.plain(target)
        return "targets" if bool(((target < 0) | (target > 1)).any()) else ""
    if name == "kl_div" and made_by(value) == "SoftmaxBackward0":
        return "no log-probabilities"
    if name == "nll_loss" and value.dim() > 1 and value.is_floating_point():
        sums = value.detach()[:ROWS].float().exp().sum(1)
        return "no log-probabilities" if bool(((sums - 1).abs() > TOLERANCE).any()) else ""
    if name in LIKELIHOODS and reduced:
        larger = broadcast_size(value.shape, target.shape) > max(value.numel(), target.numel())
        return "broadcast" if larger else ""
    if name in ELEMENTWISE and (reduced or value.dim() != target.dim()):
        larger = broadcast_size(value.shape, target.shape) > max(value.numel(), target.numel())
        return "broadcast" if larger else _bounded(value, target)
    return ""


def are_probabilities(value: torch.Tensor) -> bool:
    """Whether the values of each sample are 0 or more and sum to 1, as logits do by no chance."""
    if value.dim() < 2 or len(value) < MOST_BY_CHANCE or value.shape[1] < 2:
        return False
    rows = value[:ROWS].float()
    return bool((rows >= 0).all()) and bool(((rows.sum(1) - 1).abs() < POSITIVE).all())


def domain(name: str, value: torch.Tensor, args: Arguments, options: Options) -> str:
    """Whether the numbers are of the kind that the loss is defined for: logarithms of
    probabilities, targets of -1 and 1; as Misuse.kind."""
    if name == "cross_entropy" and args[1:] and _has_several(args[1]):
        return "several"
    place = OF_SIGNS.get(name, 1)
    target = options.get("target", args[place] if len(args) > place else None)
    if not isinstance(target, torch.Tensor):
        return ""
    target = observing.plain(target)
    if name in OF_SIGNS:
        return "" if bool((target.abs() == 1).all()) else "signs"
    if name not in OF_LOGARITHMS:
        return ""
    if bool((observing.plain(value) > POSITIVE).any()):
        return "no log-probabilities"
    wrong = name == "kl_div" and options.get("log_target") and bool((target > POSITIVE).any())
    return "no log target" if wrong else ""


def _has_several(target: Foreign) -> bool:
    """Whether rows of zeros and ones have more than one class."""
    if not isinstance(target, torch.Tensor) or not target.is_floating_point() or target.dim() < 2:
        return False
    plain = observing.plain(target)
    return bool(((plain == 0) | (plain == 1)).all()) and bool((plain.sum(1) > 1).any())


def _bounded(value: torch.Tensor, target: torch.Tensor) -> str:
    """Whether the activation that made the values cannot reach the targets."""
    low, high = RANGES.get(made_by(value).partition("Backward")[0], (-math.inf, math.inf))
    plain = observing.plain(target)
    beyond = (plain < low - MARGIN) | (plain > high + MARGIN)
    return "bounded" if beyond.numel() and float(beyond.float().mean()) >= BEYOND else ""


def is_repeated(value: Sequence[int], target: Sequence[int], samples: int) -> bool:
    """Whether a target is repeated for several predictions of its sample, or a prediction for
    several targets, of which torch warns: [n, 1] and [n, k], [n] and [n, n]. Several networks,
    [k, n, 1], that learn one target are meant so."""
    differ = samples > 1 and math.prod(target) != math.prod(value)
    return differ and [*value[:1], *target[:1]] == [samples, samples]


def broadcast_size(first: Sequence[int], second: Sequence[int]) -> int:
    """Elements of the shape that two shapes broadcast to."""
    pairs = itertools.zip_longest(reversed(first), reversed(second), fillvalue=1)
    return math.prod(max(pair) for pair in pairs)


def reduced_by(value: torch.Tensor) -> str:
    """The operation that reduced a value to one number, factors and summands left out; else ""."""
    node: Any = value.grad_fn
    while node is not None and not REDUCED.search(node.name()):
        before = [each for each, _ in node.next_functions if each is not None]
        known = node.name().partition("Backward")[0] in SCALED
        node = before[0] if known and len(before) == 1 else None
    return "" if node is None else str(node.name())


def made_by(value: torch.Tensor) -> str:
    """The operation in the graph that computed these numbers, casts and views left out."""
    node: Any = value.grad_fn
    while node is not None and node.name().partition("Backward")[0] in RESHAPING:
        node = node.next_functions[0][0] if node.next_functions else None
    return "" if node is None else str(node.name())
