"""A load that looks slow is measured a second time before anything is said of it."""

from __future__ import annotations

import msgspec

from doctor.facts.load import Load


def best_of(first: tuple[Load, ...], again: tuple[Load, ...]) -> tuple[Load, ...]:
    """The records with the higher of two rates each: what others do beside it only slows it."""
    return tuple(_best_of(*pair) for pair in zip(first, again, strict=True))


def _best_of(first: Load, again: Load) -> Load:
    """A second load that failed is a fact of its own, and so is a product that differed."""
    if not (first.ended.ok and again.ended.ok):
        return again if first.ended.ok else first
    products = again if first.differing is None or again.differing else first
    rates = {
        name: max(first.matmul.get(name, 0.0), again.matmul.get(name, 0.0))
        for name in {**first.matmul, **again.matmul}
    }
    fastest = {
        field: max(filter(None, (getattr(first, field), getattr(again, field))), default=None)
        for field in ("copy", "to_device", "from_device")
    }
    return msgspec.structs.replace(
        products,
        matmul=rates,
        measured=2,
        unread={name: why for name, why in first.unread.items() if name in again.unread},
        seconds=first.seconds + again.seconds,
        **fastest,
    )
