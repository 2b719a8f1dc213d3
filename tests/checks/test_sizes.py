"""Which sizes functions of torch take, and what makes an argument fit, compared with torch itself
on generated calls."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from doctor.checks.training.errors.data import prefix_of
from doctor.checks.training.errors.explain import PROOFS
from doctor.checks.training.errors.sizes import broadcast, call_of
from doctor.facts.raised import Operand, Raised

CASES = 60

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


class Case(NamedTuple):
    """A function of torch, how it is called with tensors, and their names, shapes and dtypes."""

    function: str
    call: Callable[..., Any]
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    options: tuple[Operand, ...] = ()


def shape(chance: random.Random, dimensions: int) -> tuple[int, ...]:
    return tuple(chance.choice((1, 2, 3, 4, 6)) for _ in range(dimensions))


def number(name: str, *values: int) -> Operand:
    return Operand(name=name, kind="int", value=str(values), numbers=values)


def linear(chance: random.Random) -> Case:
    from torch.nn.functional import linear

    x = shape(chance, chance.choice((2, 3, 4)))
    last = chance.choice((x[-1], *x, 12, x[-1] * x[-2]))
    return Case("linear", linear, ("input", "weight"), (x, (5, last)), ("float32",) * 2)


def convolution(chance: random.Random) -> Case:
    from torch.nn import functional as F

    dimensions = chance.choice((1, 2))
    x = shape(chance, dimensions + chance.choice((1, 2, 2)))
    groups = chance.choice((1, 1, 2))
    channels = chance.choice((*x, 1))
    weight = (4, max(channels // groups, 1), *(1,) * dimensions)
    call = (F.conv1d, F.conv2d)[dimensions - 1]
    return Case(
        call.__name__,
        lambda x, weight: call(x, weight, groups=groups),
        ("input", "weight"),
        (x, weight),
        ("float32",) * 2,
        (number("groups", groups),),
    )


def batch_norm(chance: random.Random) -> Case:
    from torch.nn.functional import batch_norm

    x = shape(chance, chance.choice((2, 3, 4)))
    mean = (chance.choice(x),)
    return Case(
        "batch_norm",
        lambda x, mean: batch_norm(x, mean, mean),
        ("input", "running_mean"),
        (x, mean),
        ("float32",) * 2,
    )


def layer_norm(chance: random.Random) -> Case:
    from torch.nn.functional import layer_norm

    x = shape(chance, chance.choice((2, 3, 4)))
    weight = (chance.choice(x),)
    return Case(
        "layer_norm",
        lambda x, weight: layer_norm(x, weight.shape, weight),
        ("input", "weight"),
        (x, weight),
        ("float32",) * 2,
    )


def product(chance: random.Random) -> Case:
    import torch

    dimensions = chance.choice((2, 3))
    first, second = shape(chance, dimensions), list(shape(chance, dimensions))
    second[-2:] = chance.choice(
        ((first[-1], 5), (5, first[-1]), tuple(second[-2:]), (first[-2], 5))
    )
    return Case("matmul", torch.matmul, ("", " "), (first, tuple(second)), ("float32",) * 2)


def elementwise(chance: random.Random) -> Case:
    import torch

    first = shape(chance, chance.choice((2, 3, 4)))
    start = chance.randrange(len(first))
    part = first[start : start + chance.choice((1, 2, 4))]
    second = chance.choice((part, part[::-1], shape(chance, 2)))
    if chance.random() < 0.5:
        fill: Any = lambda x, mask: x.masked_fill(mask, 0.0)  # noqa: E731
        return Case("masked_fill", fill, ("", " "), (first, second), ("float32", "bool"))
    return Case("add", torch.add, ("", " "), (first, second), ("float32",) * 2)


def gather(chance: random.Random) -> Case:
    x = shape(chance, chance.choice((2, 3)))
    dim = chance.choice((-1, *range(len(x))))
    index = chance.choice((x[:-1], x, x[: dim % len(x)] + x[dim % len(x) + 1 :]))
    return Case(
        "gather",
        lambda x, index: x.gather(dim, index),
        ("", "  "),
        (x, index),
        ("float32", "int64"),
        (number(" ", dim),),
    )


def attention(chance: random.Random) -> Case:
    from torch.nn.functional import scaled_dot_product_attention

    batch, heads, queries, keys = shape(chance, 4)
    mask = chance.choice(((batch, keys), (queries, keys), (batch, 1, 1, keys), (keys, batch)))
    return Case(
        "scaled_dot_product_attention",
        lambda query, key, mask: scaled_dot_product_attention(query, key, key, mask),
        ("query", "key", "attn_mask"),
        ((batch, heads, queries, 4), (batch, heads, keys, 4), mask),
        ("float32", "float32", "bool"),
    )


def expand(chance: random.Random) -> Case:
    target = shape(chance, chance.choice((2, 3)))
    x = chance.choice((target[:1], target[-1:], target[:2], shape(chance, 2)))
    return Case(
        "expand",
        lambda x: x.expand(*target),
        ("",),
        (x,),
        ("float32",),
        tuple(number(" " * n, each) for n, each in enumerate(target, 1)),
    )


def classes(chance: random.Random) -> Case:
    from torch.nn.functional import cross_entropy

    logits = shape(chance, chance.choice((2, 3, 4)))
    order = (logits[0], *logits[2:])
    target = chance.choice(
        (order, order[::-1], (*order, 1), (order[0], 1, *order[1:]), logits[:-1], order[:1])
    )
    return Case("cross_entropy", cross_entropy, ("input", "target"), (logits, target),
                ("float32", "int64"))  # fmt: skip


def values(chance: random.Random) -> Case:
    from torch.nn import functional as F

    x = shape(chance, chance.choice((1, 2, 3)))
    target = chance.choice((x, (*x, 1), x[:-1] or (1,), (x[0], 1, *x[1:])))
    call: Any = chance.choice((F.binary_cross_entropy_with_logits, F.mse_loss))
    return Case(call.__name__, call, ("input", "target"), (x, target), ("float32",) * 2)


FUNCTIONS = (
    linear, convolution, batch_norm, layer_norm, product, elementwise, gather, attention, expand,
    classes, values,
)  # fmt: skip


def tensors(case: Case) -> list[Any]:
    """Zeros: an index of 0 is in any range."""
    import torch

    return [
        torch.zeros(sizes, dtype=getattr(torch, dtype))
        for sizes, dtype in zip(case.shapes, case.dtypes, strict=True)
    ]


def raised(case: Case) -> Raised:
    operands = tuple(
        Operand(name=name, shape=sizes, dtype=dtype)
        for name, sizes, dtype in zip(case.names, case.shapes, case.dtypes, strict=True)
    )
    return Raised(
        errors=("RuntimeError", "Exception"),
        function=case.function,
        operands=(*operands[:1], *case.options, *operands[1:]),
    )


def is_taken(case: Case, arguments: list[Any]) -> bool:
    try:
        case.call(*arguments)
    except (RuntimeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("make", FUNCTIONS, ids=lambda make: make.__name__)
def test_the_rules_agree_with_torch_and_a_change_makes_the_call_fit(
    make: Callable[[random.Random], Case],
) -> None:
    chance, refused, fitted = random.Random(0), 0, 0
    for _ in range(CASES * 5):
        case = make(chance)
        call, arguments = call_of(raised(case)), tensors(case)
        if call is None:
            continue
        taken = is_taken(case, arguments)
        broadcasts = case.function == "mse_loss"  # with a warning
        assert call.fits == taken or (broadcasts and taken), case
        refused += not taken
        if taken or not (found := call.fitted()):
            continue
        fitted += 1
        operand, change = found
        position = case.names.index(operand.name)
        arguments[position] = eval(f"x{change.code}", {"x": arguments[position]})
        assert tuple(arguments[position].shape) == change.sizes
        assert is_taken(case, arguments), (case, change)
    assert refused >= CASES // 2
    assert fitted >= CASES // 10


def test_what_fits_proves_nothing() -> None:
    chance, count = random.Random(1), 0
    for _ in range(CASES):
        for make in FUNCTIONS:
            case = make(chance)
            if is_taken(case, tensors(case)) and case.function not in ("mse_loss",):
                count += 1
                named = [name for name, prove in PROOFS.items() if prove(raised(case))]
                assert named == [], case
    assert count >= CASES


def test_shapes_broadcast_as_torch_does_it() -> None:
    import torch

    chance = random.Random(2)
    for _ in range(CASES * 4):
        first, second = (shape(chance, chance.randrange(4)) for _ in range(2))
        try:
            expected: Any = tuple(torch.broadcast_shapes(first, second))
        except RuntimeError:
            expected = None
        assert broadcast(first, second) == expected


def test_a_prefix_is_found_whatever_the_names_are() -> None:
    chance = random.Random(3)
    for _ in range(CASES):
        names = {f"{chance.choice('abc')}{chance.randrange(99)}.weight" for _ in range(5)}
        prefix = "".join(f"{chance.choice(('module', 'net', '_orig_mod'))}." for _ in range(2))
        longer = tuple(f"{prefix}{name}" for name in sorted(names))
        assert prefix_of(longer, tuple(names)) == prefix
        assert prefix_of(longer[1:], tuple(names)) == ""
        assert prefix_of(tuple(names), longer) == ""
