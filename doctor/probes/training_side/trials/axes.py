"""Operations on another axis or tensor than the one they are meant for: a view that exchanges axes,
or takes runs of values for patches of an image, attention whose weights are normalized over the
queries or heads, or whose mask is the same for all keys, a sum of a tensor and itself."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import torch

from ..foreign import containers, observing
from ..subject.training_step import Subject
from . import outputs
from .outputs import Operation

VIEWS = ("view", "reshape", "_unsafe_view")
KEPT = ("dropout", "to", "float", "half", "type_as", "contiguous", "clone")
"""Functions after which weights of attention are still the same ones."""
CHANNELS = (1, 3, 4)
"""Of an image."""
CONVOLUTIONS = ("conv2d", "conv_transpose2d")
EXCHANGING = ("permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims")
CLASSES = ("cross_entropy", "nll_loss")
FILLS = ("masked_fill", "masked_fill_")
SUMS = ("add", "add_", "__add__", "__iadd__")
LOW = -1e4
PRODUCTS = ("matmul", "__matmul__", "bmm", "baddbmm")


def trial(subject: Subject) -> Dict[str, Any]:
    """Looks at the shapes of all views, and at which axis of what a softmax was taken."""
    images = [each for each in containers.tensors(subject.batch).values() if each.dim() == 4]
    calls = Calls({observing.storage_address(each) for each in images})
    outputs.evaluate(subject, subject.batch, calls.note)
    if any(type(each) is torch.nn.Identity for each in subject.module.modules()):
        calls.doubled.clear()  # a block that was taken out, or the path that skips one
    kinds = (
        ("map", calls.maps),
        ("axes", calls.views),
        ("queries", calls.softmaxes),
        ("masked rows", calls.rows),
        ("doubled", calls.doubled),
        ("patches", calls.patches),
    )
    for kind, found in kinds:
        if found:
            operation, place = found[0]
            return {"applies": True, "found": kind, "operation": operation, "place": place}
    return {"applies": True, "found": ""}


class Calls:
    """`images`: addresses of those of the batch."""

    def __init__(self, images: Set[int]) -> None:
        self._images = images
        self.patches: List[Operation] = []
        self.views: List[Operation] = []
        self.maps: List[Operation] = []
        self.softmaxes: List[Operation] = []
        self.rows: List[Operation] = []
        self.doubled: List[Operation] = []
        self._filled: Dict[int, Operation] = {}
        """Identity of masked scores -> the call, if its masks are of queries alone."""
        self._weights: Dict[int, int] = {}
        """Identity of what a softmax gave -> its axis, from the end."""
        self._maps: Dict[int, bool] = {}
        """Identity of a tensor -> whether it is the map of a convolution, channels second, or one
        whose channels were put last."""
        self._rows: Dict[int, Operation] = {}
        """Identity of rows that were cut out of a map -> the view."""
        self._kept: List[torch.Tensor] = []

    def note(self, name: str, args: Any, options: Dict[str, Any], result: Any) -> None:
        if not args or not isinstance(args[0], torch.Tensor):
            return
        self._follow(name, args[0], result)
        self._follow_rows(name, args[0], result)
        if name in VIEWS:
            self._note_view(name, args[0], result)
        elif name == "softmax":
            axis = options.get("dim", args[1] if len(args) > 1 else None)
            if isinstance(axis, int) and result.dim() > 2:
                self._keep(result, axis % result.dim() - result.dim())
                self._note_rows(args[0], axis % result.dim() == result.dim() - 1)
        elif name in KEPT and id(args[0]) in self._weights:
            self._keep(result, self._weights[id(args[0])])
        elif name in PRODUCTS and self._weights.get(id(args[0]), -1) != -1:
            axis, shape = self._weights[id(args[0])], list(args[0].shape)
            if shape[-1] == shape[-2] > 1:
                self._add(self.softmaxes, "softmax over dim %d of weights %s" % (axis, shape))
        else:
            self._note_pair(name, args, result)

    def _note_pair(self, name: str, args: Any, result: Any) -> None:
        if name in FILLS and len(args) > 2 and result.shape == args[0].shape:
            self._fill(args[0], args[1], args[2], result)
        elif name in SUMS and args[0] is args[1] and result.dim() > 2:
            self._add(self.doubled, "%s of a tensor and itself" % name.strip("_"))

    def _fill(self, value: Any, mask: Any, filling: Any, result: torch.Tensor) -> None:
        """Scores whose mask is the same for all keys of a query, where no other was before."""
        keys = mask.shape[-1] if mask.dim() else 0
        rows = keys == 1 < result.shape[-1] and 0 < int(mask.sum()) < mask.numel()
        low = not isinstance(filling, torch.Tensor) and filling <= LOW
        rows = rows and value is not result and float(value.min()) > LOW  # no mask was added before
        before = self._filled.get(id(value))
        if low and (before is None or before.name):
            operation = Operation("masked_fill with a mask %s" % list(mask.shape), outputs.place())
            self._filled[id(result)] = operation if rows else Operation("", "")
            self._kept.append(result)

    def _note_rows(self, scores: torch.Tensor, over_keys: bool) -> None:
        operation = self._filled.get(id(scores))
        square = scores.shape[-1] == scores.shape[-2]
        if operation is not None and operation.name and operation.place and over_keys and square:
            self.rows.append(operation)

    def _follow(self, name: str, value: torch.Tensor, result: Any) -> None:
        """Maps of convolutions, through whatever keeps their dimensions."""
        if not isinstance(result, torch.Tensor) or result.dim() != 4 or name == "__get__":
            return
        if name in CONVOLUTIONS:
            second: Optional[bool] = True
        elif name in EXCHANGING:
            second = False
        else:
            second = self._maps.get(id(value)) if result.shape == value.shape else None
        if second is not None and result is not value:
            self._maps[id(result)] = second
            self._kept.append(result)

    def _follow_rows(self, name: str, value: torch.Tensor, result: Any) -> None:
        """Rows of a map whose classes are learned: those of discrete latents may be cut anyhow."""
        operation = self._rows.get(id(value))
        if operation is None or not isinstance(result, torch.Tensor):
            return
        if name in CLASSES:
            self.maps.append(operation)
        elif result.numel() == value.numel() and result is not value:
            self._rows[id(result)] = operation
            self._kept.append(result)

    def _note_view(self, name: str, value: torch.Tensor, result: torch.Tensor) -> None:
        shapes = "%s(), %s as %s" % (name.strip("_"), list(value.shape), list(result.shape))
        whole = observing.storage_address(value) in self._images and value.is_contiguous()
        of_map = self._maps.get(id(value))
        if of_map is not False and exchanges(value.shape, result.shape):
            self._add(self.views, shapes)
        elif of_map and in_rows(value.shape, result.shape):
            place = outputs.place()
            if place:
                self._rows[id(result)] = Operation(shapes, place)
                self._kept.append(result)
        elif whole and as_patches(value.shape, result.shape):
            self._add(self.patches, shapes)

    def _keep(self, result: torch.Tensor, axis: int) -> None:
        self._weights[id(result)] = axis
        self._kept.append(result)

    def _add(self, found: List[Operation], text: str) -> None:
        place = outputs.place()
        if place:  # a library's own views are its business
            found.append(Operation(text, place))


def exchanges(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether a view has the shape that a transpose would give, and so other values in each place.

    [N, T, C] as [N, C, T]; [N, H, T, D] as [N, T, H * D]; [N, T, C] as [N, H, T, C / H]; a map
    [N, C, H, W] as [N, H * W, C] or [N * H * W, C]; [N, C, T, ...] as [N * T, C, ...]. Where two
    sizes differ by one it may be the shift of relative positions, which is meant so.
    """
    while min(len(before), len(after)) > 3 and tuple(before[:2]) == tuple(after[:2]):
        before, after = before[1:], after[1:]
    if _joins_over_channels(before, after) or _joins_over_channels(after, before):
        return True
    if _is_map_in_rows(before, after) or _is_map_in_rows(after, before):
        return True
    if len(after) == 2 and _is_flattened_map(before, after):
        return True
    one, other = _without_ones(before), _without_ones(after)
    if len(one) == len(other) and len(one) > 2 and one != other and sorted(one) == sorted(other):
        moved = {size for size, place in zip(one, other) if size != place}
        return max(moved) - min(moved) > 1
    if len(one) == 4 and len(other) == 3:
        return _merges(one, other)
    return len(one) == 3 and len(other) == 4 and _merges(other, one)


def _joins_over_channels(before: Sequence[int], after: Sequence[int]) -> bool:
    """[N, C, T, ...] as [N * T, C, ...]: frames are joined with the samples over the channels."""
    if len(before) < 4 or len(after) < 3 or 1 in before[:3] or before[1] == before[2]:
        return False
    return tuple(after[:2]) == (before[0] * before[2], before[1])


def _is_map_in_rows(image: Sequence[int], rows: Sequence[int]) -> bool:
    """[N, C, H, W] and [N, H * W, C], whose sizes differ."""
    if len(image) != 4 or len(rows) != 3:
        return False
    samples, channels, height, width = image
    places = height * width
    if 1 in (channels, places) or channels in (places, width):  # [N, H, W, C], where H is C
        return False
    return tuple(rows) == (samples, places, channels)


def _is_flattened_map(image: Sequence[int], rows: Sequence[int]) -> bool:
    """[N, C, H, W] and [N * H * W, C], where no line of the map is cut into rows of C values."""
    if len(image) != 4:
        return False
    samples, channels, height, width = image
    places = height * width
    if 1 in (channels, places) or channels == places or width % channels == 0:  # rows are channels
        return False
    return tuple(rows) == (samples * places, channels)


def in_rows(image: Sequence[int], rows: Sequence[int]) -> bool:
    """Whether the map of a convolution, [N, C, H, W], becomes rows of K values, [..., K], of which
    the channels are a multiple: each row is cut out of lines of one channel."""
    if len(image) != 4:
        return False
    channels, width, values = image[1], image[3], rows[-1]
    if len(rows) not in (2, 3) or values < 2 or channels % values:
        return False
    return values % width != 0


def as_patches(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether a view of images, [N, C, H, W], has the shape of their square patches, [N, patches,
    C * p * p]: its rows are runs of the values of a channel, neither channels nor lines."""
    if len(before) != 4 or len(after) != 3 or before[1] not in CHANNELS:
        return False
    height, width = before[2:]
    if after[1] == before[1] or after[2] == width:
        return False
    side = math.isqrt(after[2] // before[1])
    if side < 2 or after[2] != before[1] * side * side or height % side or width % side:
        return False
    return after[1] == (height // side) * (width // side) > 1


def _merges(four: Tuple[int, ...], three: Tuple[int, ...]) -> bool:
    first, heads, length, width = four
    return heads != length and three == (first, length, heads * width)


def _without_ones(shape: Sequence[int]) -> Tuple[int, ...]:
    return tuple(int(size) for size in shape if size != 1)
