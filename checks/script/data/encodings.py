"""A rule on numbers that stand for categories: the same in all parts of the data, and each run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import is_held_out, is_training
from doctor.checks.script.rendering import lines, render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

ENCODERS = {"LabelEncoder", "OrdinalEncoder", "OneHotEncoder", "LabelBinarizer",
            "MultiLabelBinarizer", "CountVectorizer", "TfidfVectorizer"}  # fmt: skip
SCALERS = {"StandardScaler", "MinMaxScaler", "RobustScaler", "MaxAbsScaler"}
NUMBERED = re.compile(
    r"DictComp<enumerate\((?:sorted\(|list\(|set\()*(?P<of>[\w.]+(?:\['\w+'\])?)(?:\.unique\(\)|\.tolist\(\))*\)*\),.*>"
)
NUMBERING = re.compile(
    r"DictComp<enumerate\((?:sorted|list|set)\(.*\b(?:rows|data|df|samples|items|labels|texts|words|records|examples|r)\b"
)
CODES = re.compile(
    r"\.astype\('category'\)\.cat\.codes|pandas\.factorize\(|\.factorize\(\)|pandas\.Categorical\("
)


def encodings(reading: Training) -> Iterator[Match]:
    yield from _fitted_again(reading)
    yield from _fitted_in_function(reading)
    yield from _numbered_apart(reading)
    yield from _of_each_dataset(reading)
    yield from _hashed(reading)


def _kind(reading: Training, call: Call) -> str:
    """What is fitted: le of le = LabelEncoder(), or LabelEncoder() itself."""
    if call.receiver_call >= 0:
        return reading.calls[call.receiver_call].method
    found = reading.assigned_to(call.receiver, call.scope) if call.receiver else ()
    kinds = {reading.calls[a.value.call].method for a in found if a.value.kind == "call"}
    return kinds.pop() if len(kinds) == 1 else ""


def _fitted_again(reading: Training) -> Iterator[Match]:
    """le.fit_transform(train.label), le.fit_transform(val.label)."""
    if {"reindex", "align"} & reading.by_method.keys():
        return
    seen: set[str] = set()
    for call in reading.named("fit_transform", "get_dummies"):
        kind = _kind(reading, call) if call.method == "fit_transform" else call.method
        fresh = call.receiver_call >= 0 or kind == "get_dummies"
        if kind not in ENCODERS | {"get_dummies"} | (SCALERS if fresh else set()) or not call.args:
            continue
        name, owner = _table(reading, call.args[0]), kind if fresh else call.receiver
        if is_training(name):
            seen.add(owner)
        elif is_held_out(name) and owner in seen:
            what = "is scaled by its own statistics" if kind in SCALERS else "gets other numbers"
            yield Match(call.span, f"{kind} is fitted again, on {name}, which {what}")


def _table(reading: Training, value: Value) -> str:
    """train of train.label, train["label"] and train["label"].astype(str)."""
    text = render(reading, value)
    return re.split(r"[.\[(]", text.lstrip("("), maxsplit=1)[0]


def _fitted_in_function(reading: Training) -> Iterator[Match]:
    """A function that fits an encoder to what it gets, called for each part of the data."""
    for call in reading.named("fit_transform", "get_dummies", "factorize"):
        kind = _kind(reading, call) if call.method == "fit_transform" else call.method
        if kind not in ENCODERS | SCALERS | {"get_dummies", "factorize"} or not call.scope:
            continue
        value = call.args[0] if call.args else Value("name", name=call.receiver)
        parameters = [p.name for p in reading.function(call.scope).parameters]
        root = _table(reading, value)
        if root not in parameters or _decided(reading, call, kind):
            continue
        parts = list(_parts(reading, call.scope, parameters.index(root), 3))
        if any(map(is_training, parts)) and any(map(is_held_out, parts)):
            what = "scaled by its own statistics" if kind in SCALERS else "numbered by itself"
            yield Match(
                call.span, f"each part of the data is {what}: {', '.join(sorted(set(parts)))}"
            )


def _decided(reading: Training, call: Call, kind: str) -> bool:
    """if fit: ... else: transform(...), where what is fitted has such a method."""
    others = {other.method for other in reading.calls_in(call.scope)}
    transforms = "transform" in others and kind not in ("get_dummies", "factorize")
    return bool(call.arms) or transforms or "reindex" in others or "align" in others


def _parts(reading: Training, scope: int, place: int, depth: int) -> Iterator[str]:
    """What the calls of a function pass in one place, also through another function."""
    if reading.function(scope).owner and reading.function(scope).parameters[:1]:
        place -= reading.function(scope).parameters[0].name in ("self", "cls")
    for site in reading.call_sites.get(scope, ()):
        call = reading.calls[site]
        if place >= len(call.args):
            continue
        name = _table(reading, call.args[place])
        outer = [p.name for p in reading.function(call.scope).parameters] if call.scope else []
        if name in outer and depth:
            yield from _parts(reading, call.scope, outer.index(name), depth - 1)
        else:
            yield name


def _numbered_apart(reading: Training) -> Iterator[Match]:
    """{c: i for i, c in enumerate(sorted(set(val_labels)))} beside that of train_labels."""
    train: list[str] = []
    for line in reading.cached(lines):
        found = NUMBERED.fullmatch(line.text)
        source = found["of"] if found else ""
        if CODES.search(line.text):
            source = _table(reading, line.value) if line.value.kind != "item" else line.text
        if not source:
            continue
        root = re.split(r"[.\[(]", source, maxsplit=1)[0]
        held = [a.text for a in reading.cached(lines) if a.target == root and a.scope == line.scope]
        names = [root, *re.findall(r"\w+", held[0] if len(held) == 1 else "")]
        if any(map(is_training, names)):
            train.append(line.target)
        elif any(map(is_held_out, names)) and train and line.target not in train:
            yield Match(
                line.span,
                f"{line.target} numbers the categories of one part: in the other they have "
                "other numbers",
            )


def _of_each_dataset(reading: Training) -> Iterator[Match]:
    """A dataset that numbers its own rows, made once for training and once for validation."""
    table = reading.cached(lines)
    for line in table:
        function = reading.function(line.scope)
        if function.name != "__init__" or line.arms or not NUMBERING.match(line.text):
            continue
        held = line.target.removeprefix("self.")
        made = reading.named(function.owner)
        names = [" ".join([*c.targets, *(render(reading, v) for v in c.args)]) for c in made]
        words = [re.findall(r"\w+", name) for name in names]
        train = any(any(map(is_training, w)) for w in words)
        other = any(any(map(is_held_out, w)) for w in words)
        shared = any(a.target.endswith(f".{held}") and a.target != line.target for a in table)
        given = {p.name for p in function.parameters} & {
            held,
            "vocab",
            "classes",
            "label2id",
            "mapping",
        }
        once = sum(a.target == line.target and a.scope == line.scope for a in table) == 1
        own = line.target.startswith("self.") and once and not shared and not given
        if train and other and own:
            yield Match(line.span, f"{line.target} numbers the rows of each part by itself")


def _hashed(reading: Training) -> Iterator[Match]:
    """hash(word) % n as an index: the numbers of another run are others."""
    lasting = reading.methods("save", "save_pretrained", "save_model", "load", "load_state_dict")
    if not lasting or "hash" not in reading.by_method or reading.mentions("pythonhashseed"):
        return
    for value, span, _ in reading.expressions:
        text = render(reading, value)
        if re.search(r"(?<![\w.])\(hash\(\w+(?:\.lower\(\)|\[\w+\])?\)%\w+\)", text):
            yield Match(
                span,
                "hash() of a text differs from run to run: saved weights meet other rows",
                "warn",
            )
            return


RULES = (
    Rule(
        code="SCR410",
        slug="categories-numbered-apart",
        title="A category has one number, in all parts of the data and all runs",
        severity="fail",
        find=encodings,
        why="An encoder that is fitted to each part numbers its categories anew: an embedding "
        "learns "
        "a row for one brand and reads it for another. Scalers that are fitted to each part "
        "move their data apart.",
        fires=(
            "le.fit_transform(val.label) after le.fit_transform(train.label)",
            "a function with fit_transform() or get_dummies() that train and val go through",
            "{c: i for i, c in enumerate(sorted(set(val_labels)))}",
            "hash(word) % n as an index, and saved weights (a warning)",
        ),
        fix="Fit on the training part once and transform() the others; keep the table of numbers "
        "with the checkpoint.",
        sources=("sklearn-pitfalls", "python-hash"),
        needs=("fit_transform", "enumerate", "get_dummies", "hash", "cat", "factorize"),
    ),
)
