"""Samples that a loader cannot read or join."""

from __future__ import annotations

import re
from collections.abc import Callable

from doctor.checks.training.errors.explanation import Explanation
from doctor.facts.raised import Raised


def explain(raised: Raised) -> Explanation | None:
    return next(filter(None, (explainer(raised) for explainer in EXPLAINERS)), None)


def sample(raised: Raised) -> Explanation | None:
    """What differs between the samples of a batch, or the sample that does not exist."""
    observed = raised.observed
    if incomplete := observed.get("incomplete"):
        return Explanation(
            incomplete,
            "Return the same keys from __getitem__ for every sample, with a default where there is "
            "no value: torch's collate function takes the keys of the first sample.",
        )
    if none := observed.get("none in"):
        return Explanation(
            f"{none} is None",
            "Let __getitem__ return a value for every sample, or leave such samples out in "
            "collate_fn.",
        )
    if unequal := observed.get("unequal"):
        return Explanation(
            unequal,
            "Pad or resize the samples of a batch to one size in collate_fn: "
            "torch.nn.utils.rnn.pad_sequence for sequences, a transform for images, for texts "
            "DataCollatorWithPadding, or with labels of tokens DataCollatorForSeq2Seq (as "
            "data_collator of the Trainer).",
        )
    if "sample" not in observed or raised.error not in ("IndexError", "KeyError"):
        return None
    number, dataset, length = observed["sample"], observed["dataset"], observed.get("length")
    claims = f" has {length} samples by its __len__, and" if length else ":"
    cause = f"{dataset}{claims} sample {number} raises {raised.error}"
    if raised.error == "KeyError":
        return Explanation(
            cause,
            "Read the rows by position in __getitem__: numbers from 0 to len - 1 are asked for. A "
            "DataFrame gives rows by .iloc[index], or reset_index(drop=True) after a filter; of a "
            "dict, list(rows)[index] is a key.",
        )
    return Explanation(
        cause,
        f"Call __getitem__ of {dataset} with {number}: if the samples end there, let __len__ "
        "return their number; else that sample holds less than the code reads.",
    )


def length(raised: Raised) -> Explanation | None:
    match = re.search(r"object of type '(\w+)' has no len\(\)", raised.message)
    if not match or not re.match("DataLoader|random_split|.*Sampler", raised.function):
        return None
    return Explanation(
        "",
        f"Define __len__ in {match[1]}, the number of samples, which shuffling needs; a stream "
        "without a length is an IterableDataset.",
    )


EXPLAINERS: tuple[Callable[[Raised], Explanation | None], ...] = (
    sample,
    length,
)
