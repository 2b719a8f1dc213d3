"""Which sizes a function of torch takes, and what makes an argument fit. Tests compare both with
torch on generated calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from doctor.checks.training.errors.changes import (
    Change,
    Changes,
    Sizes,
    channels_last,
    channels_second,
    exchanged_last,
    exchanged_samples,
    flattened,
    flattened_whole,
    positions_second,
    reordered,
    squeezed,
    unsqueezed,
)
from doctor.facts.raised import Operand, Raised

INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")


def text(sizes: Sequence[int]) -> str:
    return str(list(sizes))


def tensors(raised: Raised) -> list[Operand]:
    return [each for each in raised.operands if each.shape is not None]


def sizes_of(operand: Operand) -> Sizes:
    return operand.shape or ()


def broadcast(first: Sizes, second: Sizes) -> Sizes | None:
    """The shape of both together; None if they do not fit."""
    length = max(len(first), len(second))
    pairs = zip(
        (1,) * (length - len(first)) + first, (1,) * (length - len(second)) + second, strict=True
    )
    sizes = [b if a == 1 else a if b in (1, a) else -1 for a, b in pairs]
    return None if -1 in sizes else tuple(sizes)


# What a call takes


class Call(NamedTuple):
    """The tensors of a call that must fit each other."""

    operands: tuple[Operand, ...]
    takes: Callable[..., bool]
    """Whether it takes these sizes, one for each operand."""
    ways: tuple[tuple[int, Changes], ...] = ()
    """Number of an operand, and what may be changed about it, the likeliest first."""

    @property
    def sizes(self) -> tuple[Sizes, ...]:
        return tuple(map(sizes_of, self.operands))

    @property
    def fits(self) -> bool:
        return self.takes(*self.sizes)

    def with_sizes(self, number: int, sizes: Sizes) -> bool:
        """Whether it takes other sizes in that place."""
        return self.takes(*self.sizes[:number], sizes, *self.sizes[number + 1 :])

    def fitted(self) -> tuple[Operand, Change] | None:
        """The first change of one operand that makes the call fit."""
        for number, changes in self.ways:
            for change in changes(self.sizes[number]):
                if self.with_sizes(number, change.sizes):
                    return self.operands[number], change
        return None


def call_of(raised: Raised) -> Call | None:
    """The call that raised; None if its function is not known, or an operand of it."""
    for names, read in FUNCTIONS:
        if re.fullmatch(names, raised.function):
            call = read(raised)
            return call if call and call.operands else None
    return None


def _named(raised: Raised, *names: str) -> tuple[Operand, ...]:
    """The operands of these names; () unless all are tensors."""
    found = [each for each in (raised.operand(name) for name in names) if each and each.shape]
    return tuple(found) if len(found) == len(names) else ()


def linear(raised: Raised) -> Call:
    ways = ((0, flattened), (0, reordered))
    return Call(_named(raised, "input", "weight"), lambda x, w: x[-1] == w[-1], ways)


def convolution(raised: Raised) -> Call:
    groups = raised.operand("groups")
    number = groups.numbers[0] if groups and groups.numbers else 1
    return Call(
        _named(raised, "input", "weight"),
        lambda x, weight: (
            len(weight) - len(x) in (0, 1) and x[len(x) - len(weight) + 1] == weight[1] * number
        ),
        ((0, channels_second), (0, unsqueezed(1))),
    )


def transposed_convolution(raised: Raised) -> Call | None:
    pair = tuple(tensors(raised)[:2])
    if len(pair) < 2 or len(sizes_of(pair[0])) != len(sizes_of(pair[1])):
        return None
    return Call(pair, lambda x, weight: x[1] == weight[0], ((0, channels_second),))


def batch_norm(raised: Raised) -> Call:
    operands = _named(raised, "input", "running_mean") or _named(raised, "input", "weight")
    ways = ((0, channels_second),)
    return Call(operands, lambda x, known: len(x) > 1 and x[1] == known[0], ways)


def layer_norm(raised: Raised) -> Call:
    operands, ways = _named(raised, "input", "weight"), ((0, channels_last),)
    return Call(operands, lambda x, weight: x[-len(weight) :] == weight, ways)


def product(raised: Raised) -> Call | None:
    pair = tuple(tensors(raised)[-2:])
    if len(pair) < 2 or min(len(sizes_of(each)) for each in pair) < 2:
        return None
    ways = ((1, exchanged_last), (0, exchanged_last))
    return Call(pair, lambda a, b: a[-1] == b[-2] and broadcast(a[:-2], b[:-2]) is not None, ways)


def elementwise(raised: Raised) -> Call | None:
    pair = sorted(tensors(raised)[:2], key=lambda each: -len(sizes_of(each)))
    if len(pair) < 2:
        return None
    missing = len(sizes_of(pair[0])) - len(sizes_of(pair[1]))
    padded = unsqueezed(missing, foremost=pair[1].dtype == "bool")
    ways = ((1, padded), (1, exchanged_last), (1, positions_second))
    return Call(tuple(pair), lambda a, b: broadcast(a, b) is not None, ways)


def gathered(raised: Raised) -> Call | None:
    pair = tensors(raised)
    dims = [each.numbers[0] for each in raised.operands if each.numbers]
    if len(pair) < 2 or not dims:
        return None
    dimension = dims[0] % max(len(sizes_of(pair[0])), 1)

    def within(x: Sizes, index: Sizes) -> bool:
        others = (pair for n, pair in enumerate(zip(x, index, strict=False)) if n != dimension)
        return len(x) == len(index) and all(b <= a for a, b in others)

    return Call((pair[0], pair[1]), within, ((1, unsqueezed(1)),))


def scattered(raised: Raised) -> Call | None:
    """scatter and scatter_add: the index has the dimensions of the values, and is not broadcast."""
    found = tensors(raised)
    if len(found) < 3:
        return None
    _, index, values = found[:3]

    def like_values(sizes: Sizes) -> Iterator[Change]:
        shape = sizes_of(values)
        if len(sizes) == 1 < len(shape) and sizes == shape[:1]:
            more = ", None" * (len(shape) - 1)
            rest = "".join(f", {size}" for size in shape[1:])
            yield Change(f"[:{more}].expand(-1{rest})", shape)

    ways = ((0, like_values),)
    return Call((index, values), lambda one, other: len(one) == len(other), ways)


def attention(raised: Raised) -> Call:
    operands = _named(raised, "query", "key", "attn_mask")
    missing = len(sizes_of(operands[0])) - len(sizes_of(operands[2])) if operands else 0
    return Call(
        operands,
        lambda query, key, mask: broadcast((*query[:-1], key[-2]), mask) == (*query[:-1], key[-2]),
        ((2, unsqueezed(missing, foremost=True)),),
    )


def expanded(raised: Raised) -> Call | None:
    pair = tensors(raised)
    target = tuple(n for each in raised.operands for n in each.numbers)
    if not pair or not target:
        return None
    whole = tuple(n if n != -1 else 1 for n in target)
    return Call(
        (pair[0],),
        lambda x: len(x) <= len(whole) and all(
            a in (1, b) or c == -1 for a, b, c in
            zip(x[::-1], whole[::-1], target[::-1], strict=False)
        ),
        ((0, unsqueezed(len(whole) - len(sizes_of(pair[0])))),),
    )  # fmt: skip


def masked(raised: Raised) -> Call | None:
    """x[mask]."""
    pair = tensors(raised)
    if len(pair) < 2 or pair[1].dtype not in ("bool", "uint8"):
        return None
    return Call((pair[0], pair[1]), lambda x, mask: x[: len(mask)] == mask)


def classes(raised: Raised) -> Call:
    """Logits [N, C, ...] with class indices [N, ...], or with probabilities of their shape."""
    operands = _named(raised, "input", "target")
    indices = bool(operands) and operands[1].dtype in INTEGERS
    return Call(
        operands,
        lambda x, target: target == ((*x[:1], *x[2:]) if indices or target != x else x),
        ((1, squeezed), (1, flattened_whole), (0, channels_second), (1, exchanged_samples),
         (0, reordered)),
    )  # fmt: skip


def values(raised: Raised) -> Call:
    """A loss that compares one value with one target."""
    ways = ((0, squeezed), (1, squeezed), (1, flattened), (0, flattened))
    return Call(_named(raised, "input", "target"), lambda x, target: x == target, ways)


ELEMENTWISE = (
    r"(__)?[ir]?(add|sub|mul|div|truediv|pow|and|or|gt|lt|ge|le|eq|ne)_?(__)?|masked_fill_?"
    "|where|maximum|minimum|true_divide|lerp_?|addcmul_?"
)
VALUES = "binary_cross_entropy(_with_logits)?|(mse|l1|smooth_l1|huber|gaussian_nll)_loss"
FUNCTIONS: tuple[tuple[str, Callable[[Raised], Call | None]], ...] = (
    ("linear", linear),
    ("conv[123]d", convolution),
    ("conv_transpose[123]d", transposed_convolution),
    ("batch_norm", batch_norm),
    ("layer_norm", layer_norm),
    (r"(__)?r?matmul(__)?|bmm|mm", product),
    (ELEMENTWISE, elementwise),
    ("gather|take_along_dim", gathered),
    ("scatter(_add)?_?", scattered),
    ("scaled_dot_product_attention", attention),
    ("expand|broadcast_to", expanded),
    ("__getitem__", masked),
    ("cross_entropy|nll_loss", classes),
    (VALUES, values),
)
"""Pattern of a function's name -> what it takes."""


def refused(raised: Raised) -> Call | None:
    """The call whose sizes do not fit each other; None if they do, or it is not known."""
    call = call_of(raised)
    return None if call is None or call.fits else call
