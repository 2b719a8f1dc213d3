"""Where the loss reads its labels: one label is changed, and what its loss depends on is read.

The loss of the label at position t is computed from the output at t - k, which depends on the
inputs up to there: the last input that has a different gradient after the change is t - k. This
needs neither logits nor a known loss, so fused losses, label smoothing and autocast change nothing.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers, observing
from . import loss_labels
from .documents import BORDERS, POSITIONS, Tokens, host, is_packed
from .trial_batch import NotMeasurable, cut_of, form_of, has_labels, own_masks

LENGTH, MOST_LENGTH = 16, 512
ROWS = 8
ROUNDS = 2
"""Positions that are tried: ROWS times ROUNDS."""
MOST_DRAWN = 300_000_000
"""Weights on the CPU."""
NOTICEABLE = 1e-5
"""Share of the largest difference in a row; beyond the position it is exactly 0 in a decoder."""
REPEATABLE = 1e-3
"""Share of the largest gradient by which it may differ from call to call: order of sums."""


def record(
    module: torch.nn.Module, loss: Callable[[Any, Any], torch.Tensor], batch: Foreign, real: Tokens
) -> Dict[str, Any]:
    """The record Offset, or Unknown with the reason."""
    reason = ""
    for length in dict.fromkeys((LENGTH, real.ids.shape[1])):  # a model may have one length alone
        try:
            return measure(module, loss, batch, real, length)
        except NotMeasurable as error:
            reason = reason or str(error)
        except Exception as error:
            reason = reason or "the step on random tokens raised %s" % type(error).__name__
        if not LENGTH // 2 <= real.ids.shape[1] <= MOST_LENGTH:
            break
    return {"type": "Unknown", "reason": reason}


def measure(
    module: torch.nn.Module,
    loss: Callable[[Any, Any], torch.Tensor],
    batch: Foreign,
    real: Tokens,
    length: int = LENGTH,
) -> Dict[str, Any]:
    """The record Offset. Raises NotMeasurable, and errors of the user's code."""
    started = time.perf_counter()
    draw_weights(module)
    module.eval()
    trial = Trial(module, loss, batch, real, length)
    shifts: Dict[str, int] = {}
    later = 0
    for number in range(ROUNDS):
        at = trial.tried(number)
        for position, span in zip(at.tolist(), trial.dependence(at)):
            if span is None:
                raise NotMeasurable("the loss does not depend on the tokens of the changed label")
            shift = str(position - span[1])
            shifts[shift] = shifts.get(shift, 0) + 1
            later += span[1] == trial.length - 1
    if later or len(shifts) > 1 or is_packed(real):
        trial.compare_again()
    return {
        "type": "Offset",
        "positions": sum(shifts.values()),
        "shifts": shifts,
        "later": later,
        "crossing": crossing(trial, batch) if is_packed(real) else None,
        "mask": next(iter(own_masks(batch)), "") if trial.cut is not None else "",
        "seconds": time.perf_counter() - started,
    }


def of_shifted(record: Dict[str, Any]) -> Dict[str, Any]:
    """That of a loss which was seen to predict the next tokens: a shift below 1 is a look ahead."""
    shifts = record.get("shifts", {})
    return {**record, "shifts": {
        str(int(each) - (int(each) < 1)): count for each, count in shifts.items()
    }} if shifts else record  # fmt: skip


def sees_all(record: Dict[str, Any]) -> bool:
    """Whether the loss of most positions depends on the last token, as where all are read first."""
    return bool(2 * record.get("later", 0) > record.get("positions", 0))


def crossing(trial: "Trial", batch: Foreign) -> Optional[int]:
    """Positions of a second document whose loss depends on the first one; None where a form of
    packing is used that the trial does not make."""
    if trial.cut is not None:
        return _crossing_of_own(trial)
    if not containers.is_mapping(batch) or not any(name in batch for name in POSITIONS):
        return None
    if any(name in batch for name in (*BORDERS, "seq_idx")):
        return None
    half = trial.length // 2
    trial.documents = 2
    try:
        trial.unchanged = trial.gradient(trial.ids)
        at = torch.arange(trial.rows) % (half - 4) + half + 3
        spans = trial.dependence(at)
    except Exception:
        return None
    return sum(span is not None and span[0] < half for span in spans)


def _crossing_of_own(trial: "Trial") -> Optional[int]:
    """The same under the batch's own mask, behind the borders of the row that is tried."""
    assert trial.cut is not None
    starts = {at: max((b for b in trial.cut.borders if b + 3 <= at), default=0)
              for at in trial.cut.trained}  # fmt: skip
    later = [at for at, start in starts.items() if start]
    if not later:
        return None
    at = [later[n * len(later) // trial.rows] for n in range(trial.rows)]
    spans = trial.dependence(torch.tensor(at))
    return sum(span is not None and span[0] < starts[n] for n, span in zip(at, spans))


def draw_weights(module: torch.nn.Module) -> None:
    """Random matrices: a trained model's loss may hide the change of a label. Those of a large
    model on the CPU stay as they are: drawing them takes minutes."""
    weights = [each for each in module.parameters() if each.dim() > 1 and each.is_floating_point()]
    on_cpu = sum(each.numel() for each in weights if each.device.type == "cpu")
    if on_cpu > MOST_DRAWN:
        return
    torch.manual_seed(7)
    with torch.no_grad():
        for weight in weights:
            width = weight[0].numel() if weight.shape[0] else 1
            weight.normal_(0.0, max(1, width) ** -0.5)


class Trial:
    """A batch of random tokens in the form of the user's, and the gradients of its embeddings."""

    def __init__(
        self,
        module: torch.nn.Module,
        loss: Callable[[Any, Any], torch.Tensor],
        batch: Foreign,
        real: Tokens,
        length: int = LENGTH,
    ) -> None:
        self.module, self.loss = module, loss
        self.embedding = embedding_of(module, loss, batch, real)
        vocabulary = self.embedding.num_embeddings
        self.length = length
        self.rows = ROWS
        self.documents = 1
        """Of each row."""
        generator = torch.Generator().manual_seed(11)
        low = min(vocabulary - 1, 10)
        shape = (self.rows, self.length)
        self.ids = torch.randint(low, vocabulary, shape, generator=generator)
        self.vocabulary, self.low = vocabulary, low
        self.device = next(module.parameters()).device
        self.cut = cut_of(batch, real, length)
        self.form = form_of(batch, self.cut)
        self.makes_labels = not has_labels(batch)
        self.unchanged = self.gradient(self.ids)

    def compare_again(self) -> None:
        """Raises NotMeasurable if the same tokens have other gradients, as of a model that keeps a
        state: then a changed label seems to depend on all inputs."""
        again = (self.gradient(self.ids) - self.unchanged).abs().max()
        if float(again) > REPEATABLE * float(self.unchanged.abs().max()):
            raise NotMeasurable("the same tokens twice have other gradients: it keeps a state")

    def tried(self, number: int) -> torch.Tensor:
        """Places of labels in a round, one for each row."""
        if self.cut is None:
            first = 4 + number * ROWS
            return torch.arange(first, first + self.rows) % (self.length - 6) + 2
        places, rounds = self.cut.trained, self.rows * ROUNDS
        at = range(number * self.rows, (number + 1) * self.rows)
        return torch.tensor([places[n * len(places) // rounds] for n in at])

    def dependence(self, at: torch.Tensor) -> List[Optional[Tuple[int, int]]]:
        """For each row the first and last input that the loss of the label at `at` depends on."""
        labels = self.ids.clone()
        rows = torch.arange(self.rows)
        span = self.vocabulary - self.low
        labels[rows, at] = (labels[rows, at] - self.low + max(1, span // 2)) % span + self.low
        difference = (self.gradient(labels) - self.unchanged).abs().amax(-1)
        found: List[Optional[Tuple[int, int]]] = []
        for row in difference:
            largest = float(row.max())
            if not largest > 0:
                found.append(None)
                continue
            inputs = torch.nonzero(row > NOTICEABLE * largest)
            found.append((int(inputs[0]), int(inputs[-1])))
        return found

    def gradient(self, labels: torch.Tensor) -> torch.Tensor:
        """The gradient of the loss with respect to the embedded tokens: rows x length x width."""
        kept: List[torch.Tensor] = []
        widths = (self.length, self.length - self.makes_labels)

        def keep(module: Foreign, inputs: Foreign, output: Foreign) -> Foreign:
            if output.shape[0] != self.rows or output.shape[1] not in widths:
                return output
            leaf = output.detach().requires_grad_()
            kept.append(leaf)
            return leaf

        handle = self.embedding.register_forward_hook(keep)
        try:
            given = loss_labels.Given(self.ids, labels) if self.makes_labels else nullcontext()
            with torch.enable_grad(), given:
                value = self.loss(
                    self.module, self.form(self.ids, labels, self.device, self.documents)
                )
            if not kept:
                raise NotMeasurable("the model does not embed the tokens of the batch")
            (gradient,) = torch.autograd.grad(value, kept[:1])
        finally:
            handle.remove()
        return gradient.detach().float().cpu()


def embedding_of(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], batch: Foreign, real: Tokens
) -> torch.nn.Embedding:
    """The embedding of the input tokens. Raises NotMeasurable."""
    get = observing.attribute(module, "get_input_embeddings")
    found = observing.attempt(get, None) if callable(get) else None
    if isinstance(found, torch.nn.Embedding):
        return found
    tables = [each for each in module.modules() if isinstance(each, torch.nn.Embedding)]
    if not tables:
        raise NotMeasurable("the model has no torch.nn.Embedding")
    return _embedding_used(tables, module, loss, batch, real) if len(tables) > 1 else tables[0]


def _embedding_used(
    tables: List[torch.nn.Embedding],
    module: torch.nn.Module,
    loss: Callable[[Any, Any], Any],
    batch: Foreign,
    real: Tokens,
) -> torch.nn.Embedding:
    """The one that gets the tokens of the user's batch."""
    used: List[torch.nn.Embedding] = []

    def look(table: Foreign, inputs: Foreign) -> None:
        ids = inputs[0]
        if ids.shape == real.ids.shape and bool((host(ids) == real.ids).all()):
            used.append(table)

    handles = [each.register_forward_pre_hook(look) for each in tables]
    try:
        with torch.no_grad():
            loss(module, batch)
    finally:
        for handle in handles:
            handle.remove()
    if not used:
        raise NotMeasurable("no torch.nn.Embedding gets the tokens of the batch")
    return used[0]
