"""Whether each epoch of a distributed training has an order of its own."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.facts.data import Data
from doctor.judge.check import Check, Owner, Verdict, ok, skip, unknown, warn

LEAST_ORDERED = 16
"""Samples whose order is the same by chance in one of 10^13 shuffles. Our own number."""
SEEDED = "RandomSampler"
SEED_ONCE = (
    "Set the seed once, before the epochs: torch.manual_seed() in the loop, or a generator that is "
    "made anew with the same seed, gives every epoch the same order and the same dropout."
)
BY_EPOCH = (
    "Draw the order from the epoch, too: generator.manual_seed(self.seed + self.epoch) in "
    "__iter__()."
)


def reordered(data: Data) -> Verdict:
    split = data.split()
    epochs = split.epochs if split is not None else None
    if epochs is None:
        return skip("no DistributedSampler that shuffles was followed through a training")
    if isinstance(epochs, Unknown):
        return unknown(epochs.reason)
    text = f"{shown(epochs.sampler)}: {epochs.compared:,} samples at the start of two epochs"
    seeded = epochs.sampler == SEEDED
    if epochs.epochs < 2 and seeded:
        return skip("only one epoch of a RandomSampler was read")
    if epochs.epochs < 2:
        return unknown(f"{shown(epochs.sampler)}: only one epoch was read")
    if epochs.compared < LEAST_ORDERED:
        return unknown(f"{text}; at least {LEAST_ORDERED} required")
    if epochs.same:
        called = ", though set_epoch() was called for each" if epochs.told else ""
        fix = SEED_ONCE if seeded else BY_EPOCH if epochs.told else None
        return warn(f"{text} came in the same order{called}", fix=fix)
    return ok(f"{text} came in another order")


REORDERED = Check(
    code="DAT019",
    slug="epochs-reordered",
    title="A distributed sampler gives each epoch an order of its own",
    why="DistributedSampler shuffles by its seed and its epoch, and every epoch is epoch 0 until "
    "set_epoch() is called: all epochs have one order, and each rank sees the same samples.",
    passes=("the first samples of two epochs of the training differ in their order",),
    warns=("at least 16 samples at the start of two epochs came in the same order",),
    fix="Call loader.sampler.set_epoch(epoch) at the beginning of every epoch, before its first "
    "batch.",
    owner=Owner.JOB,
    judge=reordered,
    limits="that other samplers shuffle.",
    sources=("torch-dataloader",),
)

CHECKS = (REORDERED,)
