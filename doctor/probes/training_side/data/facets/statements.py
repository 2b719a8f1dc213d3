"""What the dataset, its collating function and its documentation state, against what arrives."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Pattern, Tuple

import torch

from ...foreign import Foreign, containers, observing
from .. import held_tokenizer
from ..relations import relation
from ..targets import Source
from . import features
from .tables import Table

DEPTH, MOST = 3, 60
"""Objects that are looked at, and how deep."""
SLACK = 0.05
"""Of a stated range, by which rounding and resizing leave it. Our own number."""
BACKGROUND, SPECIAL = 1, 16
"""Classes and tokens beyond the listed ones: unknown and background, special ids behind the words.
Our own numbers."""
OTHERS = 2
"""Different labels for each name, beyond which the names are of something else. Our own number."""
NAMES = re.compile(r"classes|class_names|label_names|categories|id2label|label2id|class_to_idx|"
                   r"idx_to_class|label_map|label_to_id|id_to_label|label_list")  # fmt: skip
COUNT = re.compile(r"num_classes|n_classes|nb_classes|num_labels|n_labels|nclasses")
COLUMNS = re.compile(r"feature_names|feature_cols|feature_columns")
WORDS = re.compile(r"vocab|stoi|word2idx|word_to_idx|token2id|token_to_id")
WORD_COUNT = re.compile(r"vocab_size|n_vocab|num_tokens|vocabulary_size")
NUMBER = r"-?\d{1,6}(?:\.\d{1,6})?"
RANGE = re.compile(
    r"(?:image|pixel|value|float|input|tensor|scaled|amplitude|waveform|feature)s?"
    r"(?![^\[]{0,60}(?:label|target|class|mask|box|prob))[^\[\n]{0,60}\[\s*(%s)\s*,\s*(%s)\s*\]"
    % (NUMBER, NUMBER),
    re.IGNORECASE,
)
SHAPE = re.compile(r"\(\s*(\d{1,5}(?:\s*,\s*\d{1,5}){1,3})\s*,?\s*\)")
SENTENCE = re.compile(r"[.;]\s|\n\s*\n")
OF_ITEMS = re.compile(r"\b(?:returns?|yields?|samples?|items?)\b|__getitem__", re.IGNORECASE)
BEFORE = re.compile(r"\b(?:stored?|files?|raw|on disk)\b", re.IGNORECASE)
RESCALED = re.compile(r"standardi[sz]|normali[sz]", re.IGNORECASE)

Numbers = Tuple[float, float]


class Measured(NamedTuple):
    """What arrives: the ends of the classes, of the tokens and of the values, and a row's shape."""

    classes: Optional[Numbers] = None
    tokens: Optional[Numbers] = None
    values: Optional[Numbers] = None
    whole: bool = False
    """The values are whole numbers."""
    shape: Tuple[int, ...] = ()
    """Of a row of what has values."""
    columns: int = 0
    labels: int = 0
    """Different ones."""


class Statement(NamedTuple):
    where: str
    quantity: str
    value: Any


def of_split(source: Source, table: Optional[Table], module: Foreign) -> List[Dict[str, Any]]:
    if table is None:
        return []
    measured = measure(table)
    for statement in statements(source, module):
        text = CONTRADICTED[statement.quantity](statement.value, measured)
        if text:
            return [relation("stated otherwise", 1, 1, (statement.where, text[0], text[1]))]
    return []


def measure(table: Table) -> Measured:
    classes = tokens = values = None
    labels = 0
    target = table.target
    if target is not None and not target.is_floating_point() and target.dim() == 1:
        used = target[target >= 0]
        used = used[used != 255]
        classes = (float(used.min()), float(used.max())) if len(used) else None
        labels = len(set(used.tolist()))
    kinds = {name: features.kind_of(each) for name, each in table.inputs.items()}
    text = [each for name, each in table.inputs.items() if kinds[name] == "tokens"]
    if len(text) == 1:
        tokens = (float(text[0].min()), float(text[0].max()))
    kept = [n for n, k in kinds.items() if k in ("image", "columns", "signal", "series")]
    shape: Tuple[int, ...] = ()
    whole, columns = False, 0
    if len(kept) == 1:
        each = table.inputs[kept[0]].float()
        shape = tuple(each.shape[1:])
        scaled = table.inputs[kept[0]].is_floating_point()  # bytes may be scaled on the GPU
        values = (float(each.min()), float(each.max())) if scaled else None
        whole = bool((each == each.round()).all())
        alone = kinds[kept[0]] == "columns" and len(kinds) == 1
        columns = each.shape[1] if alone else 0
    return Measured(classes, tokens, values, whole, shape, columns, labels)


def statements(source: Source, module: Foreign) -> Iterator[Statement]:
    """Of the objects that the data pass through, and of the documentation of their classes."""
    dataset = observing.attribute(source.items, "dataset") if source.kind == "loader" else None
    starts = [("dataset", dataset), ("collate_fn", observing.attribute(source.items, "collate_fn"))]
    left = [(*each, 0) for each in starts if each[1] is not None]
    seen: List[Any] = []
    while left and len(seen) < MOST:
        where, value, depth = left.pop(0)
        if any(value is one for one in seen) or isinstance(value, (torch.Tensor, torch.nn.Module)):
            continue
        seen.append(value)
        yield from of_object(where, value)
        if value is dataset:
            yield from of_documentation(type(value))
        if depth < DEPTH:
            inner = observing.attempt(lambda v=value: held_tokenizer.held(v), [])  # type: ignore[misc]
            left += [("%s of %s" % (type(e).__name__, where), e, depth + 1) for e in inner[:MOST]]


def of_object(where: str, value: Foreign) -> Iterator[Statement]:
    """By the names of its attributes. The vocab_size of a tokenizer leaves out added tokens."""
    if observing.has(value, "convert_tokens_to_ids"):
        return
    fields = observing.attribute(value, "__dict__", {})
    named = dict(fields) if containers.is_mapping(fields) else {}
    own = vars(type(value)) if not isinstance(value, type) else {}
    named = {**{k: v for k, v in own.items() if not callable(v)}, **named}
    for name, each in named.items():
        for pattern, quantity, read in ATTRIBUTES:
            number = read(each) if pattern.fullmatch(name) else 0
            if number > 1:
                yield Statement("%s of %s" % (name, where), quantity, number)
    normalization = named.get("image_mean"), named.get("image_std")
    if named.get("do_normalize", True) and all(map(numbers, normalization)):
        ends = [((0 - m) / s, (1 - m) / s) for m, s in zip(*normalization) if s]  # type: ignore[arg-type]
        stated = (min(low for low, _ in ends), max(high for _, high in ends))
        yield Statement("image_mean and image_std of %s" % where, "values", stated)


def of_documentation(kind: Foreign) -> Iterator[Statement]:
    """Ranges and shapes of items that the documentation of a class in the user's code gives."""
    if str(observing.attribute(kind, "__module__", "")).split(".")[0] in LIBRARIES:
        return
    texts = [observing.attribute(kind, "__doc__"),
             observing.attribute(observing.attribute(kind, "__getitem__"), "__doc__")]  # fmt: skip
    text = "\n\n".join(each for each in texts if isinstance(each, str))[:4000]
    stating = [each for each in SENTENCE.split(text) if OF_ITEMS.search(each)]
    items = "\n\n".join(
        each for each in stating if not (BEFORE.search(each) or RESCALED.search(each))
    )
    ranges = {tuple(map(float, each)) for each in RANGE.findall(text)}
    ranges = {each for each in ranges if each in ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))}
    of_items = ranges & {tuple(map(float, each)) for each in RANGE.findall(items)}
    rescaled = RESCALED.search(text) or "box" in text.lower()
    if len(ranges) == 1 and of_items and not rescaled:
        yield Statement("the documentation of the dataset", "values", ranges.pop())
    shapes = {tuple(int(n) for n in each.split(",")) for each in SHAPE.findall(text)}
    if len(shapes) == 1 and SHAPE.search(items):
        yield Statement("the documentation of the dataset", "shape", shapes.pop())


LIBRARIES = ("torch", "torchvision", "torchaudio", "datasets", "timm", "transformers", "lightning")


def count_of(value: Foreign) -> int:
    plain = isinstance(value, (list, tuple, dict)) and 0 < len(value) < 1_000_000
    if not plain:
        return 0
    one = next(iter(value))
    strings = isinstance(one, str) or (isinstance(value, dict) and isinstance(value[one], str))
    return len(value) if strings else 0


def highest_of(value: Foreign) -> int:
    """One more than the highest number of a vocabulary."""
    count = count_of(value) or (len(value) if isinstance(value, dict) else 0)
    found = list(value.values()) if isinstance(value, dict) else []
    return 1 + max((each for each in found if type(each) is int), default=count - 1)


def whole_of(value: Foreign) -> int:
    return value if type(value) is int else 0


ATTRIBUTES: Tuple[Tuple[Pattern[str], str, Callable[[Any], int]], ...] = (
    (NAMES, "classes", count_of),
    (COUNT, "classes", whole_of),
    (COLUMNS, "columns", count_of),
    (WORDS, "tokens", highest_of),
    (WORD_COUNT, "tokens", whole_of),
)
"""Names of attributes, what they state, and how a number is read of them."""


def numbers(value: Foreign) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(
        isinstance(each, (int, float)) for each in value)  # fmt: skip


Contradiction = Optional[Tuple[str, str]]


def of_classes(stated: Any, measured: Measured) -> Contradiction:
    """Labels that count from 1 have no class more than the listed ones: the last one is beyond."""
    if measured.classes is None or measured.labels > OTHERS * stated:
        return None
    low, high = measured.classes
    if high < stated + (BACKGROUND if low == 0 else 0):
        return None
    return "%d classes" % stated, "labels from %d to %d" % (low, high)


def of_tokens(stated: Any, measured: Measured) -> Contradiction:
    if measured.tokens is None or measured.tokens[1] < stated + SPECIAL:
        return None
    return "%d tokens" % stated, "numbers to %d" % measured.tokens[1]


def of_columns(stated: Any, measured: Measured) -> Contradiction:
    """One-hot columns and indicators come on top of the names."""
    if measured.columns == 0 or measured.columns >= stated:
        return None
    return "%d columns" % stated, "%d columns" % measured.columns


def of_values(stated: Any, measured: Measured) -> Contradiction:
    """Values beyond both the stated range and rounding; uint8 may still be scaled by the model."""
    low, high = stated
    if measured.values is None:
        return None
    slack = SLACK * (high - low)
    if measured.values[0] >= low - slack and measured.values[1] <= high + slack:
        return None
    return "values from %.3g to %.3g" % stated, "values from %.3g to %.3g" % measured.values


def of_shape(stated: Any, measured: Measured) -> Contradiction:
    """The sides in another order; a size may have changed since."""
    if stated == measured.shape or sorted(stated) != sorted(measured.shape):
        return None
    return "rows of %s" % (stated,), "rows of %s" % (measured.shape,)


CONTRADICTED: Dict[str, Callable[[Any, Measured], Contradiction]] = {
    "classes": of_classes, "tokens": of_tokens, "columns": of_columns, "values": of_values,
    "shape": of_shape,
}  # fmt: skip
