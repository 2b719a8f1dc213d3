"""Names without which no two kinds of a dimension meet in a file."""

from __future__ import annotations

from doctor.checks.script.kinds.conversions import MAKES, OPERATIONS
from doctor.checks.script.kinds.dimensions import DIMENSIONS, OF
from doctor.checks.script.kinds.requirements import KEYWORDS, REQUIREMENTS
from doctor.checks.script.kinds.sources import ATTRIBUTES, SOURCES
from doctor.checks.script.reading import Reading

ALSO = {
    "role": ("DataLoader", "train_dataset", "eval_dataset", "build_dataloader", "get_dataloader"),
    "color": ("cvtColor",),
    "box": ("box_convert",), "progress": ("len",), "rank": ("environ", "getenv"),
    "processes": ("environ", "getenv"), "mask": ("masked_fill", "masked_fill_"),
    "range": ("to_tensor",), "plane": ("imread", "open", "imdecode", "fromarray"),
    "share": ("mean", "acc", "accuracy"),
}  # fmt: skip
"""Names that begin a kind and stand in no table of calls."""


def needs_of(*dimensions: str) -> tuple[str, ...]:
    """Names of which one is in each file where two kinds of these dimensions meet."""
    found = {name for dimension in dimensions for name in ALSO.get(dimension, ())}
    rows = [
        *((each.kinds + sum(each.by.values(), ()), each.calls) for each in SOURCES),
        *((each.takes, each.calls) for each in REQUIREMENTS if each.calls[0] != "*"),
        *(((kind,), name) for name, kind in (*ATTRIBUTES.items(), *KEYWORDS.items())),
        *(((MAKES[operation, kind],), name) for operation, kind in MAKES
          for name, wanted in OPERATIONS.items() if wanted == operation),
    ]  # fmt: skip
    for kinds, calls in rows:
        if any(OF[kind].name in dimensions for kind in kinds):
            found.update(calls.split())
    return tuple(sorted(found))


NEEDS = {each.name: frozenset(needs_of(each.name)) for each in DIMENSIONS}


def active(reading: Reading) -> frozenset[str]:
    """The dimensions of which a file has such a name: `reading.cached(active)`."""
    names = reading.script.identifiers
    return frozenset(dimension for dimension, found in NEEDS.items() if names & found)
