"""What a step hands to torch's tables and losses: ids that a table lacks, classes that an output
lacks, and labels that the loss leaves out, whatever computes it.

A look-up or a class that raises is moved within its bounds, so that the step goes on and the calls
behind it are seen, too.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

import torch
from torch.overrides import TorchFunctionMode

from ..foreign import Arguments, Foreign, Function, Options, Types, containers, observing
from . import attended, loss_labels, padding_targets
from .bounds import Beyond, beyond, indices, merged
from .documents import host, tokens_of
from .relations import relation

CLASSED = ("input", "target", "weight", "size_average", "ignore_index")
PARAMETERS = {
    "embedding": ("input", "weight"),
    "cross_entropy": CLASSED,
    "nll_loss": CLASSED,
    "ctc_loss": ("log_probs", "targets", "input_lengths", "target_lengths", "blank"),
    "binary_cross_entropy": ("input", "target", "weight"),
    "binary_cross_entropy_with_logits": ("input", "target", "weight"),
}
"""Functions that are watched, and their first parameters."""
IGNORED = -100
SUMS = 0.01
"""Error of a sum of shares. Our own number."""
MOST_VALUES = 4_000_000
"""Outputs whose gradient is read."""
MOST_BATCHES, MOST_WORK, FIRST_WORK = 8, 2e10, 1e12
"""Steps, and weights times numbers of their batches: of all steps, and of the first one, some
seconds
and a minute of two cores. Our own numbers."""


class Table(NamedTuple):
    """A table of the model, and what it was looked up with."""

    name: str
    entries: int
    fields: Tuple[str, ...]
    """Fields of the batch that it was looked up with as they are."""


class StepCalls:
    """The calls of some steps on the user's batches."""

    def __init__(self, module: torch.nn.Module, loss: Callable[[Any, Any], Any]) -> None:
        self._module, self._loss = module, loss
        self._names = {id(each): name for name, each in module.named_parameters()}
        self._steps = 0
        self._work = 0.0
        self._weights = sum(each.numel() for each in module.parameters())
        self.tables: Dict[int, Table] = {}
        """By the identity of their weights."""
        self.lookups: Dict[int, Beyond] = {}
        self.classes: Optional[Beyond] = None
        self.unfit: Set[int] = set()
        """Classes that the output lacks."""
        self.shares: Optional[Beyond] = None
        """Sums of the shares of classes, as a cross entropy gets them, that are not 1."""
        self.probabilities: Optional[Beyond] = None
        """Targets of a binary cross entropy that are not from 0 to 1."""
        self._attended = attended.Attended()
        self._padded = padding_targets.PaddingTargets(module)
        self.taught: Dict[str, Set[float]] = {}
        """Values of a field of one number for each row, that a step's only loss of classes gets."""
        self.ctc: List[Dict[str, Any]] = []
        """Arguments of CTC losses, with targets in one form: a list of rows."""
        self.left_out: Set[int] = set()
        """Labels from 0 on that change nothing of the loss, of the first batch."""
        self.own: Optional[loss_labels.OwnLabels] = None
        """What the loss makes labels of, where the first batch has none."""

    def add(self, batch: Foreign) -> None:
        """One step, nothing of which is kept where the loss cannot be computed."""
        numbers = sum(each.numel() for each in containers.tensors(batch).values())
        self._work += self._weights * numbers
        if self._steps >= MOST_BATCHES or self._work > (MOST_WORK if self._steps else FIRST_WORK):
            return
        watch = _Watch()
        loss = observing.attempt(lambda: self._step(watch, batch), None)
        if loss is None:
            self._steps = MOST_BATCHES
            return
        if not self._steps:
            self.left_out = observing.attempt(lambda: left_out(loss, watch.classed), set())
            self.own = observing.attempt(
                lambda: loss_labels.of_step(tokens_of(batch), watch.looked_up, watch.classed), None
            )
        self._steps += 1
        self._note(watch, batch)

    @property
    def classified(self) -> bool:
        """Whether a cross entropy of classes was seen."""
        return self.classes is not None

    def indexed(self) -> Dict[str, Table]:
        """Field of the batch -> the table that it indexes, where no number of it was beyond."""
        whole = {key: each for key, each in self.tables.items() if not self.lookups[key].wrong}
        return {name: each for each in whole.values() for name in each.fields}

    def indices(self) -> List[Dict[str, Any]]:
        """The records Indices of numbers that a table or an output lacks."""
        found, told = [], set()
        for key, each in self.lookups.items():
            table = self.tables[key]
            if not each.wrong or (table.fields and table.fields in told):
                continue
            told.add(table.fields)
            named = "the model's table %s" % table.name if table.name else "a table of the model"
            if table.fields:
                named = "%s, which %s indexes," % (named, table.fields[0][:60])
            found.append(indices("numbers", named, each))
        if self.classes is not None and self.classes.wrong:
            each = self.classes
            alone = self.unfit == {int(each.high)} and each.high > each.bound
            found.append({**indices("classes", "the model's output", each), "alone": alone})
        return found

    def records(self) -> List[Dict[str, Any]]:
        """Relations on the targets of the losses."""
        each = {"targets no probabilities": self.probabilities, "targets no shares": self.shares}
        return (
            self._attended.records()
            + self._padded.records()
            + [
                relation(kind, found.wrong, found.whole, (), (), (found.low, found.high))
                for kind, found in each.items()
                if found is not None and found.wrong
            ]
        )

    def _step(self, watch: "_Watch", batch: Foreign) -> torch.Tensor:
        with torch.random.fork_rng(devices=[]), torch.enable_grad(), watch:
            value = self._loss(self._module, batch)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise TypeError("not a loss")
        return value

    def _note(self, watch: "_Watch", batch: Foreign) -> None:
        named = {name: host(each) for name, each in containers.tensors(batch).items()}
        for weight, ids in watch.looked_up:
            key, entries = id(weight), int(weight.shape[0])
            fields = tuple(n for n, e in named.items() if e.shape == ids.shape and equal(e, ids))
            known = self.tables.get(key)
            kept = fields if known is None else tuple(n for n in known.fields if n in fields)
            name = self._names.get(key, "").rpartition(".")[0]
            self.tables[key] = Table(name, entries, kept)
            found = beyond(ids, (ids < 0) | (ids >= entries), entries)
            self.lookups[key] = merged(self.lookups.get(key), found)
        for output, target, ignored in watch.classed:
            classes = int(output.shape[1] if output.dim() > 1 else output.shape[0])
            wrong = (target != ignored) & (target >= classes)
            self._padded.add(named, target, classes, ignored)
            self.classes = merged(self.classes, beyond(target, wrong, classes))
            self.unfit |= set(torch.unique(target[wrong]).tolist())
        for target in watch.probabilities:
            wrong = (target < 0) | (target > 1)
            self.probabilities = merged(self.probabilities, beyond(target, wrong, 1))
        asked = [target for _, target, _ in watch.classed] + watch.probabilities
        for name, each in named.items() if len(asked) == 1 else ():
            if each.numel() == len(each) and same_numbers(each, asked[0]):
                self.taught.setdefault(name, set()).update(torch.unique(each)[:2].tolist())
        self._attended.add(named, watch.masks)
        for sums in watch.shares:
            self.shares = merged(self.shares, beyond(sums, (sums - 1).abs() > SUMS, 1))
        self.ctc += watch.ctc


class _Watch(TorchFunctionMode):
    """The calls of one step."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_up: List[Tuple[torch.Tensor, torch.Tensor]] = []
        self.classed: List[Tuple[torch.Tensor, torch.Tensor, int]] = []
        """Outputs, classes, and the class that is ignored."""
        self.probabilities: List[torch.Tensor] = []
        self.shares: List[torch.Tensor] = []
        self.masks: List[torch.Tensor] = []
        """Keys that attention leaves out."""
        self.ctc: List[Dict[str, Any]] = []

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = dict(kwargs or {})
        name = observing.function_name(func)
        if name in attended.MASKS:
            left_out = observing.attempt(lambda: attended.left_out_by(name, args, options), None)
            self.masks += [] if left_out is None else [left_out]
        names = PARAMETERS.get(name, ())
        if names:
            bound = {**dict(zip(names, args)), **options}
            change = observing.attempt(lambda: self._noted(names, bound), None)
            if change is not None:
                at = names.index(change[0])
                if at < len(args):
                    args = (*args[:at], change[1], *args[at + 1 :])
                else:
                    options[change[0]] = change[1]
        return func(*args, **options)

    def _noted(self, names: Foreign, bound: Dict[str, Any]) -> Optional[Tuple[str, torch.Tensor]]:
        """Note a call; a parameter whose values would be refused, and others in their place."""
        if names == PARAMETERS["embedding"]:
            ids, entries = bound["input"], len(bound["weight"])
            self.looked_up.append((bound["weight"], host(ids)))
            return "input", ids.clamp(0, entries - 1)
        if names == PARAMETERS["ctc_loss"]:
            self.ctc.append({**bound, "targets": rows_of(bound)})
            return None
        target = bound["target"]
        if names != CLASSED:
            plain = bound.get("weight") is None and bound.get("reduction") != "none"
            self.probabilities += [host(target).float()] if plain else []
            return None
        if target.is_floating_point():
            self.shares += [host(target).float().sum(min(1, target.dim() - 1))]
            return None
        output, ignored = bound["input"], int(bound.get("ignore_index", IGNORED))
        self.classed.append((output, host(target), ignored))
        classes = output.shape[1] if output.dim() > 1 else output.shape[0]
        inside = target.clamp(0, classes - 1)
        return "target", torch.where(target == ignored, target, inside)


def rows_of(bound: Dict[str, Any]) -> List[torch.Tensor]:
    """The targets of a CTC loss: rows that are padded, or one behind the other."""
    targets = host(bound["targets"])
    lengths = torch.as_tensor(bound["target_lengths"]).reshape(-1).tolist()
    if targets.dim() == 1:
        return list(torch.split(targets[: sum(lengths)], lengths))
    return [row[:length] for row, length in zip(targets, lengths)]


def same_numbers(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Of any type and shape."""
    flat = [each.reshape(-1).float() for each in (one, other)]
    return flat[0].shape == flat[1].shape and bool((flat[0] == flat[1]).all())


def equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and bool((one == other).all())


def left_out(loss: torch.Tensor, classed: List[Tuple[torch.Tensor, torch.Tensor, int]]) -> Set[int]:
    """Classes for which no output has a gradient, where others have one: a loss ignores them, by
    ignore_index, a mask or a weight of 0."""
    calls = [each for each in classed if each[0].requires_grad]
    if len(calls) != 1 or calls[0][0].numel() > MOST_VALUES:
        return set()
    output, target, _ = calls[0]
    (gradient,) = torch.autograd.grad(loss, [output], retain_graph=True)
    used = (host(gradient) != 0).any(1 if output.dim() > 1 else 0)
    if used.shape != target.shape or not bool(used.any()):
        return set()
    found = torch.unique(target[target >= 0]).tolist()
    return {value for value in found if not bool(used[target == value].any())}
