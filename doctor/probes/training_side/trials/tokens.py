"""Whether the prediction of the next value of a sequence depends on it, or on later ones."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from ..calls.loss_calls import ELEMENTWISE
from ..foreign import Foreign, containers, observing
from ..subject.training_step import Subject
from . import mixing, outputs
from .outputs import Operation

LEAST = 4
"""Positions of a sequence, and labels that are not ignored."""
CLASSES = ("cross_entropy", "nll_loss")
IGNORED = -100
MOST_CALLS = 32
NEXT, SAME, LAST, TWICE = "next", "same", "last", "twice"
NONE = {"applies": False, "found": "", "reason": "no sequence whose labels are its next values"}


class Compared(NamedTuple):
    """What a loss function got: predictions and labels, [samples, positions, ...]."""

    predictions: torch.Tensor
    labels: torch.Tensor
    operation: Operation


class Opened(NamedTuple):
    """A call of attention in which each position sees all: its result, and the axis of the
    positions there."""

    operation: Operation
    result: torch.Tensor
    axis: int


def trial(subject: Subject) -> Dict[str, Any]:
    """Changes the last position of a sequence that is its own label, and compares the predictions.

    An attention without any mask is named, else the module that mixes: expert-choice routing and
    norms over time, which depend on later tokens on purpose, are not.
    """
    whole = Calls(subject)
    sequence, relation, number = whole.labelled(subject.batch)
    if sequence is None or relation == SAME:
        turned = _time_major(subject)
        if sequence is None or turned["found"]:
            return turned
    if relation == SAME and _may_be_made_here(subject):
        return NONE
    if relation == TWICE and _is_partly_frozen(subject):  # a head that learns the token after next
        return {"applies": True, "found": ""}
    if relation == TWICE:
        return _found(TWICE, whole.losses[number].operation)
    if relation == LAST:
        return _future(subject, sequence, whole.losses[number], number)
    return _ordered(subject, whole, sequence, relation, number)


def _ordered(
    subject: Subject, whole: Calls, sequence: torch.Tensor, relation: str, number: int
) -> Dict[str, Any]:
    """The same of labels that are the next values, or the tokens themselves."""
    predictions = whole.losses[number].predictions
    for place in (sequence.shape[1] - 1, sequence.shape[1] - 2):
        batch = changed_at(subject.batch, sequence, place)
        other = Calls(subject._replace(batch=batch))
        moved = outputs.differing(predictions, other.losses[number].predictions, 1)
        if moved:
            break
    early = [position for position in moved if position < place]
    label = place - 1 if relation == NEXT else place
    operation, module = Operation("", ""), ""
    if early and relation == NEXT:
        operation = whole.open_to(other, place) or operation
        if operation.name:
            return _found("tokens", operation)
        module = mixing.module_that_mixes(subject, subject.batch, batch, place + 1)
    aligned = relation == SAME or predictions.shape[1] < sequence.shape[1]
    if moved == [label] and aligned and not module:
        return _found("unshifted", whole.losses[number].operation)
    if not early or relation == SAME:
        return {"applies": True, "found": ""}
    return _found("positions" if module else "tokens", Operation(module, ""))


def _time_major(subject: Subject) -> Dict[str, Any]:
    """The same of tokens [positions, samples] whose labels are the next ones, for attention without
    a mask alone."""
    whole = Calls(subject, time_first=True)
    sequence, relation, number = whole.labelled(subject.batch)
    if sequence is None or relation != NEXT:
        return NONE
    place = len(sequence) - 2
    batch = changed_at(subject.batch, sequence, place, 0)
    other = Calls(subject._replace(batch=batch), time_first=True)
    moved = outputs.differing(whole.losses[number].predictions, other.losses[number].predictions, 1)
    operation = whole.open_to(other, place) if any(each < place for each in moved) else None
    return _found("tokens", operation) if operation else {"applies": True, "found": ""}


def _future(
    subject: Subject, sequence: torch.Tensor, compared: Compared, number: int
) -> Dict[str, Any]:
    """Whether predictions of the last values of a sequence change with the very last one, which no
    decoder gets, whatever it gets of those before."""
    batch = changed_at(subject.batch, sequence, sequence.shape[1] - 1)
    other = Calls(subject._replace(batch=batch)).losses[number]
    moved = outputs.differing(compared.predictions, other.predictions, 1)
    return _found("future", compared.operation) if moved else {"applies": True, "found": ""}


def _may_be_made_here(subject: Subject) -> bool:
    """Whether the doctor made the batch, with labels for a model that shifts them itself."""
    return not subject.fixed and set(containers.tensors(subject.batch)) == {"input_ids", "labels"}


def _is_partly_frozen(subject: Subject) -> bool:
    return not all(each.requires_grad for each in subject.module.parameters())


def _found(kind: str, operation: Operation) -> Dict[str, Any]:
    found = {"found": kind, "operation": operation.name, "place": operation.place}
    return {"applies": True, **found}


def changed_at(batch: Foreign, sequence: torch.Tensor, place: int, axis: int = 1) -> Foreign:
    """The batch with another value at this position of each sample of the sequence."""
    changed = sequence.clone()
    values = changed.select(axis, place)
    if sequence.is_floating_point():
        values.mul_(1.7).add_(0.31)
    else:
        others: torch.Tensor = torch.unique(sequence)[:2]
        values.copy_(torch.where(values == others[0], others[-1], others[0]))
    return containers.mapped(batch, lambda each: changed if each is sequence else each)


class Calls:
    """The losses of one evaluation, and its calls of attention without any mask.

    `time_first`: of tokens [positions, samples], whose losses are turned round.
    """

    def __init__(self, subject: Subject, time_first: bool = False) -> None:
        self._time_first = time_first
        self.losses: List[Compared] = []
        self.open: List[Opened] = []
        tensors = containers.tensors(subject.batch).values()
        sizes = [each.shape[time_first] for each in tensors if each.dim() > time_first]
        self._samples = sizes[0] if sizes else 0
        outputs.evaluate(subject, subject.batch, self._note)

    def labelled(self, batch: Foreign) -> Tuple[Optional[torch.Tensor], str, int]:
        """A sequence of the batch that is compared with its own values, how, and in which loss."""
        found = self._related(batch, (NEXT, SAME, LAST))
        twice = self._related(batch, (TWICE,)) if found[1] in ("", NEXT) else found
        tokens = twice[0] if twice[1] == TWICE else None
        if tokens is not None and not self._follows(tokens):
            shifted = found[0]  # the labels of the batch, whose next values the loss gets
            if shifted is None or _equal(shifted[:, :-1], tokens[:, 1 : shifted.shape[1]]):
                return twice
        return found

    def _follows(self, sequence: torch.Tensor) -> bool:
        """Whether a loss compares with the next tokens: another one may do with those after."""
        return any(_relation(sequence, each.labels) == NEXT for each in self.losses)

    def _related(
        self, batch: Foreign, relations: Tuple[str, ...]
    ) -> Tuple[Optional[torch.Tensor], str, int]:
        for relation in relations:
            for number, each in enumerate(self.losses):
                for sequence in filter(self._is_sequence, containers.tensors(batch).values()):
                    order = sequence.t() if self._time_first else sequence
                    if _relation(order, each.labels) == relation:
                        return sequence, relation, number
        return None, "", 0

    def _is_sequence(self, tensor: torch.Tensor) -> bool:
        axis = 0 if self._time_first else 1
        if tensor.is_floating_point() and not self._time_first:
            return tensor.dim() in (2, 3) and tensor.shape[1] >= LEAST
        return tensor.dtype == torch.int64 and tensor.dim() == 2 and tensor.shape[axis] >= LEAST

    def open_to(self, other: Calls, place: int) -> Optional[Operation]:
        """The first attention without a mask whose result differs before a position that another
        evaluation changes: not that of an encoder, which gets other tokens."""
        for one, changed in zip(self.open, other.open):
            if one.result.shape == changed.result.shape:
                moved = outputs.differing(one.result, changed.result, one.axis)
                if any(position < place for position in moved):
                    return one.operation
        return None

    def _note(self, name: str, args: Any, options: Dict[str, Any], result: Any) -> None:
        if name in (*CLASSES, *ELEMENTWISE) and len(self.losses) < MOST_CALLS:
            inputs = [*args, *(options[key] for key in ("input", "target") if key in options)]
            values, labels = map(observing.plain, inputs[:2])
            by_position = _by_time if self._time_first else _by_position
            pair = by_position(name, values, labels, self._samples)
            if pair is not None:
                place = outputs.place()
                self.losses.append(Compared(*pair, Operation(name, place)))
        if len(self.open) >= MOST_CALLS:
            return
        if name == "scaled_dot_product_attention" and _sees_all(args, options):
            text = "scaled_dot_product_attention without a mask"
            self.open.append(
                Opened(Operation(text, outputs.place()), result.clone(), result.dim() - 2)
            )
        masked = options.get("attn_mask") is not None or options.get("is_causal")
        if name == "multi_head_attention_forward" and not masked and args[0].shape[0] > 1:
            text = "MultiheadAttention without attn_mask"
            self.open.append(Opened(Operation(text, outputs.place()), result[0].clone(), 0))


def _by_position(
    name: str, values: torch.Tensor, labels: torch.Tensor, samples: int
) -> Optional[Tuple[torch.Tensor, torch.Tensor]]:
    """Predictions and labels of a loss, [samples, positions, ...]; None if they are not such."""
    if name in ELEMENTWISE:
        fits = values.shape == labels.shape and labels.dim() > 1 and len(labels) == samples
        return (values, labels) if fits else None
    if labels.is_floating_point() or not samples or labels.numel() % samples:
        return None
    length = labels.numel() // samples
    if values.dim() == 3:
        values = values.transpose(1, 2)
    if values.dim() not in (2, 3) or values.numel() % max(1, samples * length) or length < LEAST:
        return None
    return values.reshape(samples, length, -1), labels.reshape(samples, length)


def _by_time(
    name: str, values: torch.Tensor, labels: torch.Tensor, samples: int
) -> Optional[Tuple[torch.Tensor, torch.Tensor]]:
    """The same of a loss that got [positions, samples, ...], the samples first again."""
    positions = labels.numel() // max(1, samples)
    pair = _by_position(name, values, labels, positions) if name in CLASSES else None
    return None if pair is None else (pair[0].transpose(0, 1), pair[1].t())


def _relation(sequence: torch.Tensor, labels: torch.Tensor) -> str:
    """NEXT: the labels are the sequence from its second position on; SAME: they are its tokens;
    LAST: they are its last values, or those of some of its features; TWICE: they are the tokens
    from its third position on, and no loss compares the ones between."""
    length, compared = sequence.shape[1], labels.shape[1]
    later = labels if compared == length - 1 else labels[:, :-1]
    if _equal(later, sequence[:, 1:]):
        return NEXT
    if not sequence.is_floating_point() and compared in (length, length - 1):
        if _equal(labels, sequence[:, :compared]):
            return SAME
        return TWICE if _equal(labels[:, : length - 2], sequence[:, 2:]) else ""
    is_part = sequence.is_floating_point() and compared < length - 1
    return LAST if is_part and any(map(_equal_to(labels), _last(sequence, labels))) else ""


def _last(sequence: torch.Tensor, labels: torch.Tensor) -> List[torch.Tensor]:
    """The last values of a sequence, as many as there are labels: all features, or the first or
    last ones."""
    values = sequence[:, sequence.shape[1] - labels.shape[1] :]
    if values.dim() == labels.dim():
        count = labels.shape[-1]
        return [values] if values.dim() == 2 else [values[..., :count], values[..., -count:]]
    return [values[..., 0], values[..., -1]] if values.dim() > labels.dim() else []


def _equal_to(labels: torch.Tensor) -> Callable[[torch.Tensor], bool]:
    return lambda values: _equal(labels, values)


def _equal(labels: torch.Tensor, values: torch.Tensor) -> bool:
    if labels.shape != values.shape or labels.is_floating_point() != values.is_floating_point():
        return False
    kept = labels != IGNORED
    some = values[kept]
    if some.numel() < LEAST or bool((some == some[0]).all()):
        return False
    if labels.is_floating_point():
        return torch.allclose(labels.float(), values.float())
    return torch.equal(labels[kept], some)


def _sees_all(args: Any, options: Dict[str, Any]) -> bool:
    mask = options.get("attn_mask", args[3] if len(args) > 3 else None)
    causal = options.get("is_causal", args[5] if len(args) > 5 else False)
    return mask is None and not causal and args[0].shape[-2] == args[1].shape[-2] > 1
