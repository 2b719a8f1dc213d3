"""Dimensions, the kinds that a value may have in each, and the words by which names state them."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from doctor.checks.script.naming import words


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `ends`: how the name of such a value ends, `sure`: where only such a value would.

    `scale`: what 1 of it is in the dimension's unit, where a factor converts.
    """

    name: str
    ends: str = ""
    sure: str = ""
    scale: float = 0.0


@dataclass(frozen=True, slots=True)
class Dimension:
    """Kinds that exclude each other. `additive`: a sum with a value of unknown kind keeps the kind;
    `lasting`: so does arithmetic of any sort; `summed`: two kinds are never added.
    """

    name: str
    kinds: tuple[Kind, ...]
    additive: bool = False
    lasting: bool = False
    summed: bool = False
    compared: bool = True


UNITS_OF_TIME = (
    Kind("milliseconds", r"ms|msecs?|millis|milliseconds", r"ms|msecs?|millis|milliseconds", 1e-3),
    Kind("microseconds", r"usecs?|microseconds", r"usecs?|microseconds", 1e-6),
    Kind("nanoseconds", r"ns|nsecs?|nanoseconds", r"nsecs?|nanoseconds", 1e-9),
    Kind("seconds", r"secs?|seconds|(?:time|elapsed|duration|latency|took|dt)_s", r"", 1.0),
    Kind("minutes", r"mins|minutes", r"minutes", 60.0),
    Kind("hours", r"hrs|hours", r"hours", 3600.0),
)
UNITS_OF_SIZE = (
    Kind("bytes", r"bytes", r"bytes", 1.0),
    Kind("KiB", r"kb|kib", r"", 1024.0),
    Kind("MiB", r"mb|mib|megabytes", r"", 1024.0**2),
    Kind("GiB", r"gb|gib|gigabytes", r"", 1024.0**3),
)
DIMENSIONS = (
    Dimension(
        "score",
        (
            Kind("log-probabilities", "", r"log_?probs|log_?probabilities|log_softmax|logps"),
            Kind("logits"),
            Kind("probabilities"),
        ),
    ),
    Dimension(
        "spread",
        (
            Kind("a log-variance", r"log_?vars?|log_?variances?", r"log_?vars?|log_?variances?", 1),
            Kind(
                "a log standard deviation", r"log_?stds?|log_?sigmas?", r"log_?stds?|log_?sigma", 2
            ),
            Kind("a variance", r"vars?|variances?", r"variances?"),
            Kind("a standard deviation", r"stds?|stddevs?|std_?devs?|sigmas?", r"stds?|stddev"),
            Kind("a precision", "", "", -1),
        ),
    ),
    Dimension(
        "role",
        (
            Kind("training data", "=training"),
            Kind("held-out data", "=held out"),
        ),
        lasting=True,
        compared=False,
    ),
    Dimension(
        "color",
        (
            Kind("RGB", r"rgb"),
            Kind("BGR", r"bgr"),
            Kind("HSV"),
            Kind("LAB"),
            Kind("gray"),
        ),
        lasting=True,
        compared=False,
    ),
    Dimension(
        "range",
        (
            Kind("0 to 255", "", "", 1.0),
            Kind("0 to 1", "", "", 255.0),
            Kind("-1 to 1"),
            Kind("standardized"),
        ),
        compared=False,
    ),
    Dimension(
        "layout",
        (
            Kind("channels last", r"hwc|nhwc"),
            Kind("channels first", r"chw|nchw"),
        ),
        lasting=True,
        compared=False,
    ),
    Dimension("form", (Kind("PIL image"), Kind("array"), Kind("tensor")), compared=False),
    Dimension(
        "plane",
        (
            Kind("(width, height)"),
            Kind("(height, width)"),
            Kind("a width", r"w|width"),
            Kind("a height", r"h|height"),
        ),
        compared=False,
    ),
    Dimension(
        "box",
        (
            Kind("xyxy", r"xyxy", r"xyxy"),
            Kind("xywh", r"xywh", r"xywh"),
            Kind("cxcywh", r"cxcywh|xcycwh", r"cxcywh|xcycwh"),
        ),
        summed=True,
    ),
    Dimension(
        "angle",
        (
            Kind("radians", r"rads?|radians", r"rads?|radians", 1.0),
            Kind("degrees", r"degs?|degrees", r"degs?|degrees", 0.017453292519943295),
        ),
        additive=True,
        summed=True,
    ),
    Dimension(
        "share",
        (
            Kind("a fraction", r"fraction|frac", r"", 1.0),
            Kind("matches", scale=0.0),
            Kind("percent", r"percent|percentage|pct", r"percent|pct", 0.01),
        ),
        summed=True,
    ),
    Dimension(
        "progress",
        (
            Kind("epochs", r"epochs", r"epochs"),
            Kind("steps", r"steps|iters|iterations", r"steps|iters|iterations"),
            Kind("samples", r"", r""),
        ),
    ),
    Dimension("time", UNITS_OF_TIME, additive=True, summed=True),
    Dimension("size", UNITS_OF_SIZE, additive=True, summed=True),
    Dimension(
        "rank",
        (
            Kind("the local rank", r"local_rank|localrank", r""),
            Kind("the global rank", r"global_rank|world_rank", r""),
        ),
    ),
    Dimension(
        "processes",
        (
            Kind("the processes of a node", r"local_world_size", r""),
            Kind("all processes", r"world_size", r""),
        ),
    ),
    Dimension(
        "label",
        (
            Kind("one-hot rows", r"one_?hot|onehot", r"one_?hot"),
            Kind("class indices", "", r""),
        ),
    ),
    Dimension(
        "mask",
        (
            Kind("True for tokens", r"", r""),
            Kind("True for what is ignored", "", r"key_padding_mask"),
        ),
    ),
    Dimension(
        "distance",
        (
            Kind("squared distances", r"sq_?dists?|squared_dist(?:ance)?s?|dists?_sq|sqr_?dists?"),
            Kind("distances", r"(?:dists?|distances?)(?:_(?:ap|an|pos|neg|positive|negative))?"),
            Kind("similarities", r"sims?|similarit(?:y|ies)"),
        ),
    ),
    Dimension("reduction", (Kind("a mean"), Kind("a sum"), Kind("one loss per element"))),
    Dimension(
        "audio",
        (
            Kind("decibels", r"db|decibels?", r""),
            Kind("amplitude", r"", r""),
            Kind("power", r"", r""),
            Kind("complex spectrum", r"", r""),
        ),
    ),
    Dimension(
        "dropped",
        (
            Kind("the share to keep", r"keep_?prob|keep_?rate", r"keep_?prob|keep_?rate"),
            Kind("the share to drop", r"drop_?prob|drop_?rate", r"drop_?prob|drop_?rate|dropout"),
        ),
    ),
    Dimension(
        "noise",
        (
            Kind("running products of alphas", r"alphas?_(?:cum)?(?:prod|bar)s?", ""),
            Kind("alphas", r"", r"alphas"),
            Kind("betas", r"", r"betas"),
        ),
    ),
    Dimension("information", (Kind("nats"), Kind("bits", r"", r""))),
)
"""In the order in which a name is read: log_std before std."""
KIND = {kind.name: kind for dimension in DIMENSIONS for kind in dimension.kinds}
OF = {kind.name: dimension for dimension in DIMENSIONS for kind in dimension.kinds}
ROLE_WORDS = r"(?:x|y|df|data|loader|dataset|dataloader|set|ds|dl|split|iter|images|labels)"
SETS = r"(?:cifar\d*|mnist|svhn|stl\d*|imagenet)"
"""Names of public data sets before the part: cifar100_test."""
TRAINING = re.compile(
    rf"(?:(?:{ROLE_WORDS}|{SETS})_)?(?:train|training|trn)(?:set|loader|data|dataset)?(?:_{ROLE_WORDS})*"
)
HELD_OUT = re.compile(
    rf"(?:(?:{ROLE_WORDS}|{SETS})_)?(?:val|valid|validation|test|testing|eval|dev)(?:set|loader|data|dataset)?"
    rf"(?:_{ROLE_WORDS})*"
)
NEGATED = {"per", "non", "not", "no", "without", "to"}
"""Words behind which, or with which, a kind is not that of the value."""


@functools.cache
def _expression(ends: str) -> re.Pattern[str]:
    """The ending, numbered or not: sigma2 is a square."""
    return re.compile(rf"(?:.*_)?(?:{ends})[013-9]*")


ENDS = {e for d in DIMENSIONS for k in d.kinds for e in (k.ends, k.sure) if e and e[0] != "="}
STATES = re.compile(rf"(?:^|_)(?:{'|'.join(sorted(ENDS))})[013-9]*$|train|trn|val|test|eval|dev")
"""What occurs in each name that states a kind: most state none."""


@functools.lru_cache(maxsize=4096)
def stated(name: str, *, sure: bool = False) -> dict[str, Kind]:
    """The kinds that a name states, by dimension; `sure`: by words for nothing else."""
    text = "_".join(words(name))
    if not STATES.search(text) or not NEGATED.isdisjoint(text.split("_")):
        return {}
    found: dict[str, Kind] = {}
    for dimension in DIMENSIONS:
        for kind in dimension.kinds:
            ends = kind.sure if sure else kind.ends
            if ends and _states(text, ends):
                found[dimension.name] = kind
                break
    return found


def _states(text: str, ends: str) -> bool:
    if ends == "=training":
        return TRAINING.fullmatch(text) is not None
    if ends == "=held out":
        return HELD_OUT.fullmatch(text) is not None
    return _expression(ends).fullmatch(text) is not None


def converted(kind: Kind, factor: float) -> Kind | None:
    """The kind of a value that is multiplied by a factor, None where no kind has it."""
    if not kind.scale or not factor:
        return None
    wanted = kind.scale / factor
    for other in OF[kind.name].kinds:
        if other.scale and abs(other.scale / wanted - 1) < 0.08:
            return other
    return None
