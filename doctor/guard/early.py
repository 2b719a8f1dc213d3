"""What the first backward passes show: what a loss gets, graphs that are kept, a loader that begins
anew."""

from __future__ import annotations

import weakref
from typing import Callable

from . import codes, loss_graphs
from . import thresholds as limit
from .batches import Batches
from .context import Context
from .foreign import Foreign
from .jumps import Jumps
from .loss_graphs import SCORES
from .output_ranges import OutputRanges
from .ratios import Ratios
from .step_pattern import StepPattern
from .switch import raise_of_a_signal

KEY = "doctor.guard"


class Kept:
    """Lives as long as a node of a graph does."""

    __slots__ = ("_count",)

    def __init__(self, count: Alive) -> None:
        self._count = count
        count.now += 1

    def __del__(self) -> None:
        self._count.now -= 1


class Alive:
    """How many nodes of a kind are in memory."""

    def __init__(self, what: str, holds: str) -> None:
        self.now, self.reported = 0, False
        self._what, self._holds = what, holds

    def mark(self, node: Foreign) -> str:
        """A node of the next graph; a sentence where too many are alive."""
        if hasattr(node, "variable") or not hasattr(node, "metadata"):
            return ""
        node.metadata[KEY] = Kept(self)
        if self.reported or self.now != limit.GRAPHS_KEPT:
            return ""
        self.reported = True
        return (
            f"the graphs of {self.now} {self._what} are still in memory after their backward "
            f"passes: {self._holds} holds them"
        )


class _Loader:
    """The last batch of a loader that was the first one of its iterator."""

    def __init__(self) -> None:
        self.iterator: Foreign = lambda: None
        self.content: Foreign = None
        self.row = 0


class Early:
    """Follows the first backward passes; `open` until nothing more is to be seen.

    `only` gives the optimizer, where there
    is one alone.
    """

    def __init__(
        self, context: Context, batches: Batches, jumps: Jumps, only: Callable[[], Foreign]
    ) -> None:
        self._context, self._batches = context, batches
        self._only, self._pattern = only, StepPattern(context)
        self.searched: list[Callable[[Foreign], None]] = []
        """Get the node of each loss."""
        self._ranges, self._ratios = OutputRanges(context), Ratios(context)
        self._steady, self._jumps = context.steady, jumps
        self._misfits: dict[str, int] = {}
        self.classes = -1
        """Of all losses, where each is a mean cross entropy; 0 otherwise, -1 before the first."""
        self.open = True
        self._passes = 0
        self._losses = Alive("losses", "a sum or a list of losses")
        self._outputs = Alive("outputs of the model", "a list of outputs that were not detached")
        self._loaders: dict[int, _Loader | None] = {}
        self._last: _Loader | None = None
        self._abandoned = False

    def passes(self, root: Foreign) -> None:
        """An outermost backward pass from `root` begins."""
        self._passes += 1
        self.open = self._passes < limit.EARLY_PASSES
        self._abandoned = self._last is not None and self._last.iterator() is None
        node = getattr(root, "grad_fn", None)
        if node is None:
            return
        self._look_at_graph(node)
        self._follow_steps(root)
        if not (self._losses.reported or self._outputs.reported):
            self._count_graphs(node)

    def _count_graphs(self, node: Foreign) -> None:
        """Mark the nodes of the loss and of the output that is nearest to it."""
        output = next((e for e in loss_graphs.nearest(node) if type(e).__name__ in SCORES), None)
        parent = node.next_functions[0][0] if node.next_functions else None
        if type(node).__name__ in ("MulBackward0", "DivBackward0") and parent is not None:
            node = parent  # the loss before it was scaled or divided
        of_output = "" if output is None or output is node else self._outputs.mark(output)
        if text := self._losses.mark(node) or of_output:
            self._context.warn(codes.MEMORY_HOLDS, text, "graphs", step=self._passes)

    def _follow_steps(self, root: Foreign) -> None:
        steady = self._steady
        if steady.scaled or self._only() is None:
            self._pattern.reset()
            return
        text = self._pattern.passes(steady.stepped_at == steady.backwards, root)
        if text:
            text += self._context.where()
            self._context.warn(codes.STEPS_APPLIED, text, "pattern", step=self._passes)

    def reopen(self) -> None:
        """Somebody waits for the graph of the next loss."""
        self.open = True

    def _look_at_graph(self, node: Foreign) -> None:
        """What the loss was computed from; an error of a version of torch ends this look."""
        try:
            self._jumps.passes(node, self._steady.backwards + 1)
            for search in self.searched:
                search(node)
            if self._passes <= limit.GRAPHS_READ:
                self._look_for_misfit(node)
                self._ranges.passes(node, self._passes, self._context.where())
            if self._ratios.open:
                self._ratios.passes(node, self._passes)
            self._jumps.expected = self._ratios.found
        except (AttributeError, RuntimeError, TypeError):
            self._passes = max(self._passes, limit.GRAPHS_READ)

    def _look_for_misfit(self, node: Foreign) -> None:
        cause, text = loss_graphs.misfit(node)
        self._context.tally.graphs += cause != "none"
        classes = loss_graphs.classes(node)
        self.classes = classes if self.classes in (-1, classes) else 0
        self._misfits[cause] = count = self._misfits.get(cause, 0) + 1
        if text and count == limit.MISFITS:
            text += self._context.where()
            self._context.warn(codes.LOSS_FITS_OUTPUT, text, cause, step=self._passes)

    def fetched(self, iterator: Foreign, data: Foreign) -> None:
        """The iterator of a DataLoader returned a batch; an error ends this look, not the guard."""
        try:
            self._fetched(iterator, data)
        except Exception as error:
            raise_of_a_signal(error)
            self.open = False

    def _fetched(self, iterator: Foreign, data: Foreign) -> None:
        self._context.tally.fetched += 1
        key = id(iterator._index_sampler)
        loader = self._loaders.setdefault(key, _Loader())
        if loader is None:
            return
        if iterator._num_yielded > 1:  # the loader advances
            self._loaders[key] = None
            return
        if not self._context.torch.is_grad_enabled():
            return
        content, before = self._content(data), loader.content
        again = self._abandoned and loader is self._last and content == before
        loader.row = loader.row + 1 if again and content is not None else 1
        loader.iterator, loader.content = weakref.ref(iterator), content
        self._last, self._abandoned = loader, False
        if loader.row == limit.SAME_BATCHES:
            self._same(iterator)

    def _same(self, iterator: Foreign) -> None:
        try:
            count = len(iterator._index_sampler)
        except (TypeError, NotImplementedError):
            return
        if count > 1:
            text = (
                f"{limit.SAME_BATCHES} steps in a row trained on the same batch: each takes the "
                f"first batch of a new iterator, of a DataLoader with {count} batches that does "
                f"not shuffle{self._context.where()}"
            )
            self._context.warn(codes.LOADER_ADVANCES, text, step=self._passes)

    def _content(self, data: Foreign) -> Foreign:
        """Shapes and some values of the batch's tensors; None where there are none to read."""
        found = []
        for _, tensor in self._batches.tensors(data):
            if tensor.device.type == "cpu" and not tensor.is_sparse and tensor.numel():
                flat = tensor.detach().reshape(-1)
                found.append((tuple(tensor.shape), flat[:: max(1, len(flat) // 64)][:64].tolist()))
        return found or None
