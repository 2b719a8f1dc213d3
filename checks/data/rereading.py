"""Reading a row leaves it as it is."""

from __future__ import annotations

from doctor._util.units import shown
from doctor.checks.data.relations import Meaning, Meanings, verdicts
from doctor.facts.data import Data, Split
from doctor.facts.data_batches import Rereading
from doctor.judge.check import Check, Owner, Verdict, ok, skip, warn
from doctor.judge.combine import worst


def rows_stay(data: Data) -> Verdict:
    once = [e for split in data.splits for e in verdicts(split.relations, MEANINGS)]
    found = [(split, split.rereading) for split in data.splits if split.rereading is not None]
    if not found and not once:
        return skip("no rows of a Dataset that are read by number")
    return worst(*once, *(_split(split, rereading) for split, rereading in found))


MEANINGS: Meanings = {
    "one pass": Meaning(
        "the loader gives the same iterator each time: from the second epoch on it gives nothing",
        "Make the rows in __iter__, and not in __init__: a generator or a map() is read once.",
        single=True,
    ),
    "seed in row": Meaning(
        "reading a row sets the global seed of {fields} to one number: all rows get the same "
        "random changes, and the model the same dropout",
        "Set seeds once, before the training; in a row, draw from a generator of its own.",
        single=True,
    ),
}


def _split(split: Split, rereading: Rereading) -> Verdict:
    name = shown(split.name)
    if rereading.how == "same":
        return ok(f"{name}: {rereading.rows} rows are the same in each of four readings")
    if rereading.how == "other":
        return skip(f"{name}: rows have random numbers of their own: two readings differ")
    row = f"{name}: row {rereading.row:,}"
    if rereading.how == "raised":
        text = f"{row} can be read once: {shown(rereading.error)} when it is read again"
    else:
        text = f"{row}, {_drift(rereading)} in each reading"
    return warn(f"{text}; required: the same row in each epoch")


def _drift(rereading: Rereading) -> str:
    field = f"field {shown(rereading.field)}"
    if rereading.how == "longer":
        return f"{field} has {rereading.difference:g} values more"
    difference = rereading.difference
    sign = "+" if difference >= 0 else "-"
    return f"{field} becomes {rereading.factor:.4g} times its values {sign} {abs(difference):.4g}"


STAYS = Check(
    code="DAT023",
    slug="rows-stay",
    title="Reading a row does not change it",
    why="A __getitem__ that changes what it stores (x /= 255, ids += [eos], row.pop('label')) "
    "gives other rows in the second epoch than in the first one. Without workers, and with "
    "persistent ones, the change stays; nothing raises.",
    passes=("three rows are the same in four readings with the same random numbers",),
    warns=(
        "each reading scales or shifts a field alike, or makes it longer",
        "reading a row sets a global seed to one number",
        "the loader is an iterator, which ends with the first epoch",
        "a row raises an exception when it is read again",
    ),
    fix="Change a copy: x = self.x[i].clone(), x = x / 255 instead of x /= 255, "
    "ids = ids + [eos] instead of ids += [eos], row = dict(self.rows[i]) before row.pop().",
    owner=Owner.JOB,
    judge=rows_stay,
    limits="that rows which have random numbers of their own are not changed.",
    sources=("torch-dataloader",),
)

CHECKS = (STAYS,)
