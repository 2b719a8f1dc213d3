"""Statistics in attributes of objects, and in variables, that a resume begins anew."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from doctor.collect.rehearsal.records import Snapshot

STATISTIC = re.compile(
    r"(?<![a-z])(?:means?|vars?|variances?|std|sigma|running|moving|ema|avg|averages?|momentum"
    r"|norm|scales?|temperature|temp|tau|beta|alpha|baseline|kl|anneal\w*|epsilon|eps|center|prior"
    r"|centroids?|prototypes?|codebook|usage|curriculum|difficulty|log_?alpha|cov|covariance"
    r"|quantiles?|min_?val|max_?val)(?![a-z])|normali[sz]er|running_?(?:mean|stat)|rewardscal"
    r"|(?<![a-z])(?:patience_\w+|num_bad\w*|bad_epochs|no_improve\w*|wait_count)(?![a-z])"
    r"|^\w*(?:ema|averag\w*|polyak)\.(?:num_?updates|n_?updates|updates|n_averaged"
    r"|optimization_step)$"
    r"|^len\(.*(?:replay|buffer|memory|queue|bank|pool)",
    re.IGNORECASE,
)
"""In names of attributes that the training computes with, and changes."""
OF_A_LOG = re.compile(
    r"loss|acc(?![a-z])|accuracy|metric|score|meter|logg|logs?(?![a-z])|timer?(?![a-z])|seconds"
    r"|speed|progress|throughput|profil|track|smoothed|print|best|grad|dataset|loader|args|config"
    r"|flops|(?<![a-z])mfu(?![a-z])|(?<![a-z])eta(?![a-z])"
    r"|(?<![a-z])(?:last|prev|previous|cur|current|batch|start|max|min)(?![a-z])",
    re.IGNORECASE,
)
"""In names of attributes and classes that report."""
OF_A_VARIABLE = re.compile(
    r"^\(.*\) (?:(?:running|moving|avg|average|mean|ema|norm)_(?!mean|std|var)\w+"
    r"|\w+_(?:avg|average|ema))$",
    re.IGNORECASE,
)
"""A variable with such a name, and no class around it, is that of a log as a rule."""
STOPS = re.compile(r"^\w*(?:early_?stop|patience)\w*\.", re.IGNORECASE)
"""A class that ends the training when it gets no better: its numbers count, but for a log's."""
RESTORED = re.compile(
    r"\.(?!.*(?:epoch|step|iter))\w*(?:best|wait|bad|patience|counter)", re.IGNORECASE
)
"""In names of such a class: if one of them came back, it was restored."""
NORMALIZES = re.compile(r"normali[sz]|whiten|reward_?scal", re.IGNORECASE)
"""In names of classes that compute with what they gather, also of a loss."""
BEST = re.compile(r"(?:^|[.) _])best(?:_(?!epoch|step|iter)\w+)?$", re.IGNORECASE)
"""In names of what later results are compared with."""
NEAR = 0.25
"""Share of its change by which a value may be off its first one. Our own number."""
NAMED = 3
LEAST = 16
"""Things in a container that are worth naming. Our own number."""


def begun_anew(saved: Snapshot, now: Snapshot, begun: Snapshot | None) -> list[str]:
    """Names of those that the steps changed, and that are as at the start of a training again.

    What is updated before the first forward pass is near its first value, or beside a counter of
    the same object that is equal to its own.
    """
    names = []
    kept = {_owner(name) for name in saved.attributes if _came_back(name, saved, now, begun)}
    restarted = {_owner(name) for name in saved.attributes if _counts_anew(name, saved, now, begun)}
    for name, before in saved.attributes.items():
        fresh, after = _value(begun, name), _value(now, name)
        if fresh is None or after is None or not (_stops(name) or _computes(name)):
            continue
        if STOPS.search(name) and _owner(name) in kept:
            continue
        changed, off = _apart(before, fresh), _apart(after, fresh)
        small = name.startswith("len(") and max(map(_number, before), default=0) < LEAST
        if not changed or not _apart(before, after) or small:
            continue
        grown = changed > max(map(abs, map(_number, fresh)), default=0.0)
        own = not name.startswith("(")
        if not off or (own and ((grown and off <= NEAR * changed) or _owner(name) in restarted)):
            names.append(name)
    return names


def _stops(name: str) -> bool:
    """Whether it is of what ends the training when it gets no better, and not of its log."""
    attribute = name.partition(".")[2]
    logged = OF_A_LOG.search(attribute) and "best" not in attribute.lower()
    return bool(STOPS.search(name)) and not logged


def _came_back(name: str, saved: Snapshot, now: Snapshot, begun: Snapshot | None) -> bool:
    """Whether it counts for how long a result has not improved, and is as at the save again."""
    before, after, fresh = saved.attributes[name], _value(now, name), _value(begun, name)
    own = STOPS.search(name) and RESTORED.search(name)
    return bool(own) and after == before != fresh


def _computes(name: str) -> bool:
    """Whether it is of what the training computes with, by its name."""
    return bool(STATISTIC.search(name)) and not (_reports(name) or OF_A_VARIABLE.search(name))


def _reports(name: str) -> bool:
    """Whether it is of a log, by its own name, and that of its class if that does not normalize."""
    owner, _, attribute = name.partition(".")
    return bool(OF_A_LOG.search(attribute if NORMALIZES.search(owner) else name))


def best_begun_anew(saved: Snapshot, now: Snapshot, begun: Snapshot | None) -> str:
    """The name of a best result so far that the steps changed, and that is as at the start of a
    training again; "" for none."""
    for name, before in saved.attributes.items():
        fresh, after = _value(begun, name), _value(now, name)
        if not BEST.search(name) or len(before) != 1 or fresh is None or after != fresh:
            continue
        if _apart(before, fresh):
            return name
    return ""


def counts_anew(saved: Snapshot, now: Snapshot, begun: Snapshot | None) -> list[str]:
    """Names of numbers, but for those of logs, that the steps changed and that are as at the start
    of a training again."""
    names = [name for name in saved.attributes if _counts_anew(name, saved, now, begun)]
    return [name for name in names if not _reports(name)][:NAMED]


def _counts_anew(name: str, saved: Snapshot, now: Snapshot, begun: Snapshot | None) -> bool:
    """Whether a number of an object was changed by the steps and is its first one again."""
    before, after, fresh = _value(saved, name), _value(now, name), _value(begun, name)
    if before is None or after is None or fresh is None or len(before) != 1:
        return False
    return after == fresh != before


def _owner(name: str) -> str:
    return name.partition(".")[0]


def _value(snapshot: Snapshot | None, name: str) -> Sequence[Any] | None:
    """None where it was not there."""
    return snapshot.attributes.get(name) if snapshot is not None else None


def _apart(left: Sequence[Any], right: Sequence[Any]) -> float:
    """The largest difference of two values; infinite where one is None or not finite."""
    if len(left) != len(right):
        return math.inf
    numbers = zip(map(_number, left), map(_number, right), strict=True)
    return max((abs(a - b) for a, b in numbers if a != b), default=0.0)


def _number(value: Any) -> float:
    finite = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if finite else math.inf
