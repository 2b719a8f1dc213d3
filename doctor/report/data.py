"""The head of a report on data: what was read, and how much of it."""

from __future__ import annotations

from collections.abc import Iterator

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.facts.data import Data, Split


def data_parts(data: Data | Unknown | None) -> Iterator[tuple[str, str]]:
    """Name and text of each line of the head."""
    if not isinstance(data, Data):
        return
    yield "data", " · ".join(filter(None, [shown(data.target, 300), _tokenizer(data)]))
    for split in data.splits:
        yield shown(split.name, 9), coverage(split)


def _tokenizer(data: Data) -> str:
    return f"tokenizer of {data.tokenizer}" if data.tokenizer else ""


ENDINGS = {
    "hang": "then no batch came",
    "error": "then reading failed",
    "time": "until --sample-time was over",
}


def coverage(split: Split) -> str:
    """ "256 of 51,000 rows in 32 batches, 4.0 s"."""
    if split.total is None:
        rows = f"{split.rows:,} rows" + " in all" * (split.ended == "complete")
    elif split.rows >= split.total:
        rows = f"all {split.total:,} rows"
    else:
        rows = f"{split.rows:,} of {split.total:,} rows"
    batches = f" in {split.batches:,} batches" if split.kind == "loader" else ""
    ending = ENDINGS.get(split.ended, "")
    return f"{rows}{batches}, {split.seconds:.1f} s" + (f", {ending}" if ending else "")
