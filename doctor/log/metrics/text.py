"""Metrics in text lines: the Trainer's dictionaries, Megatron's bars, `loss: 0.1`."""

from __future__ import annotations

import re

from doctor.log.metrics.curves import ALIASES, HELD_OUT, OTHER, STEPS, TESTED, Curves, plain

_NAMES = sorted({*ALIASES, *STEPS}, key=len, reverse=True)
EVALUATION = ("val", "valid", "validation", "eval", "test", "dev")
"""A name after one of these words and a space is of an evaluation."""
OF_EVALUATION = re.compile(
    rf"(?<![\w/.-])(?:{'|'.join(EVALUATION)}|evaluation)(?![\w/.-])(?! every)".encode()
)
"""Such a word before a row's loss, without "train", makes it that of an evaluation."""


def _name_expression() -> str:
    """The names, the longest first, by their first letters: most positions have none of these."""
    return "|".join(
        rf"{first}(?<![\w/-]{first}){_not_of_an_evaluation(first)}"
        rf"(?:{'|'.join(_any_separator(name[1:]) for name in names)})"
        for first in sorted({name[0] for name in _NAMES})
        if (names := [name for name in _NAMES if name[0] == first])
    )


def _any_separator(name: str) -> str:
    return re.escape(name).replace("_", "[_ /.-]")


def _not_of_an_evaluation(first: str) -> str:
    return "".join(f"(?<!{word} {first})" for word in EVALUATION)


_VALUE = (
    r"['\"]?\)?(?:\s?\[[^\]]{1,20}\])?"
    r"(?:(?:\sis)?\s{0,4}[:=]\s{0,12}(?:tensor)?(?:\(|\[(?=[-+.\de]{1,30}\]))?['\"]?"
    r"|\s{1,20}(?:is |was )?(?=[-+]?(?:(?:nan|inf)\b(?! or\b)|\d{1,40}\.\d)))"
    r"([-+]?(?:nan|inf(?:inity)?\b|\d{1,40}(?:\.\d{0,40})?(?:e[-+]?\d{1,4})?))"
)
_ENDS = r"(?!\w|\.[\w.])"
METRIC = re.compile(
    rf"({_name_expression()}){_VALUE}((?:,\d{{3}}){{1,4}}(?!\d))?(m?s)?{_ENDS}".encode()
)
"""A name, a colon or an equals sign, and a number, in lower case; a full stop may end it.

A space alone separates a name from a number with a point. Thousands are of a throughput: elsewhere
the comma separates values.
"""
OTHER_LOSS = re.compile(
    rf"(?<![\w/.-])((?:[a-z]\w{{0,30}}[/_ -])?\w{{0,30}}loss\w{{0,30}}){_VALUE}{_ENDS}".encode()
)
"""A loss by any other name, `Tloss: 7.3` or `train/loss_ce=0.9`, where a log has no known one."""
PARTS = re.compile(
    rf"(?:^|_)(?:{'|'.join(EVALUATION)}|best|min|lowest|kl\w?|adv\w*|reg\w*|aux\w*|commit\w*|gan|"
    r"d|g|disc\w*|gen\w*|entropy|policy|value|pg|vf|critic|actor)(?:_|$)"
)
"""Words of losses that may rise in a healthy training, or are of an evaluation."""
QUOTE, QUOTES = (
    b"\xe2\x80",
    [(typographic.encode(), b"'") for typographic in "\u2018\u2019\u201c\u201d"],
)
"""What becomes of quotation marks on the way into a forum or a letter."""
EPOCH = re.compile(rb"\bepochs?['\"]?[ :=\[#-]{0,6}(\d{1,6})(?![\d%]|\.\d)")
RATES = ("throughput", SPEED := "speed")
"""How fast a training goes: by tokens, which sequences of other lengths do not change, first."""
UNIT_BEHIND = re.compile(
    rb"(?<![\w.,=:+-])(\d[\d,]{0,12}(?:\.\d{1,6})?) ?(?:(tok(?:ens?)?)|img|images?|samples?|seqs?|"
    rb"sequences?|frames?|it|steps?) ?/ ?s(?:ec)?\b"
)
"""A throughput whose name is its unit: `| 23,110 tok/s |`."""
SECONDS_EACH = re.compile(rb"(?<![\w.,=:])(\d{1,7}(?:\.\d{1,6})?) ?(m?s) ?/ ?(?:it|step|batch)\b")
"""How a bar says it where a step takes long: `1.88s/it`, `24s/step`."""
MILLI = 1e-3
NAME_BEFORE, VALUE_AFTER = (
    re.compile(rb"(?<![\w.])[a-z_]\w{0,40}[:=]?\s{1,4}$"),
    re.compile(rb"\s{0,2}[:=]?\s{0,4}\d"),
)
"""What makes a unit the name of the number behind it: `loss 3.21 tok/s 88000`."""
BARE = re.compile(rb"\b(?:step|iteration|iter)\s{1,12}(\d{1,12})\b")
ROUNDED = re.compile(rb"\bsteps?\s?[:=]\s{0,3}(\d{1,6}(?:\.\d{1,3})?)(k|m)\b")
THOUSANDS = {b"k": 1000, b"m": 1_000_000}
"""`step:50K`, as LeRobot prints it."""
BEFORE_NONFINITE = (*"\t:='\"(+-", ": ", "= ", "  ", *(f"{end} " for end in "smtre'\"]"))
"""What stands before a NaN that is a value; the last ones are the ends of names."""
NONFINITE = re.compile(
    rf"(?:{'|'.join(map(re.escape, BEFORE_NONFINITE))})(?:nan|inf(?:inity)?)(?![\w.])".encode()
)
PART_OF_PASS = re.compile(
    rb"\b(?:test|val|valid|validation|eval)\w{0,10}:?\s{0,4}\[\s{0,6}(\d{1,7})/\s{0,6}\d{1,7}\]"
    rb".{0,200}?\bloss:?\s{1,6}\d{1,9}(?:\.\d{0,9})?\s\(\s{0,4}(\d{1,9}(?:\.\d{0,9})?)\)"
)
"""`Test: [190/242] Time 0.7 (0.6) Loss 0.95 (2.73)`: one of the batches, and the mean so far."""
ONLY_EVALUATED = re.compile(rb"\b(?:eval(?:uat\w+)?|validat\w+)[- ]only\b")
"""An epoch without steps: the weights stand still, and the rate may be printed as 0."""
SUMMARY, EVALUATED = b"train_runtime", re.compile(rb"['\"]eval_loss['\"]")
"""What only rows about a whole training, or an evaluation, contain."""
AVERAGED = b"(ema)"
"""An evaluation of averaged weights, beside that of the weights themselves: timm's Test (EMA)."""
RATE = "learning_rate"
"""A row with nothing else is of settings."""
LOSS, NORM, ENTROPY = b"loss", b"grad_norm", b"xent"
LEVEL = b"info"
"""Before the message of a row, after the name of a logger: `src.train - INFO - Validation`."""
PART = 48
"""Bytes before a number in which its name is looked for."""
LONGEST = 4096
"""Bytes of a row in which metrics are looked for."""


def is_metric_row(lower: bytes) -> bool:
    """Whether a row, in lower case, may contain a loss or a gradient norm."""
    return LOSS in lower or NORM in lower or ENTROPY in lower


def is_nonfinite_row(lower: bytes) -> bool:
    """Whether it may contain NaN or infinity."""
    return NONFINITE.search(lower) is not None


def read_metrics(row: bytes, line: int, curves: Curves) -> None:
    """Add the metrics of a row to the curves."""
    lower = row[:LONGEST].lower()
    if SUMMARY in lower:
        _summary(lower, line, curves)
        return
    for quote, ascii_quote in QUOTES if QUOTE in lower else ():
        lower = lower.replace(quote, ascii_quote)
    if epoch := EPOCH.search(lower):
        curves.count(int(epoch[1]), line)
    found, step = metrics_of(lower)
    values = _of_one_kind(_speed(lower) | found, lower)
    if HELD_OUT in values:
        own = curves.repeated.fresh(lower.decode("utf-8", "replace"), {HELD_OUT: values[HELD_OUT]})
        values = {name: each for name, each in values.items() if name != HELD_OUT} | own
    if not any("loss" in name for name in found) and (other := _other_loss(lower)):
        curves.append(step, values | other, line)
    elif values.keys() - {RATE, SPEED}:
        again = _goes_on(values, lower, curves)
        curves.append(step, values, line, again=again)


def _summary(lower: bytes, line: int, curves: Curves) -> None:
    """The mean loss of a whole training, where no row has another; ranks print it again."""
    loss = metrics_of(lower)[0].get("loss")
    if loss is not None and not curves.has_loss:
        curves.append(None, {"loss": loss}, line)


def _speed(lower: bytes) -> dict[str, float]:
    """How fast it goes, by a number with its unit."""
    if found := _with_unit(lower):
        return {RATES[not found[2]]: float(found[1].replace(b",", b""))}
    if (found := SECONDS_EACH.search(lower)) and (seconds := float(found[1])):
        return {SPEED: 1 / (seconds * (MILLI if found[2] == b"ms" else 1))}
    return {}


def metrics_of(lower: bytes) -> tuple[dict[str, float], int | None]:
    """The metrics that a row in lower case names, and its step."""
    values: dict[str, float] = {}
    steps: dict[str, float] = {}
    for found, number, thousands, unit in METRIC.findall(lower):
        name = plain(found.decode())
        if curve := ALIASES.get(name):
            whole = number + thousands.replace(b",", b"") if curve in RATES else number
            values.setdefault(curve, float(whole) * (MILLI if unit == b"ms" else 1))
        else:
            steps.setdefault(name, float(number))
    return values, _step(steps, lower)


def _other_loss(lower: bytes) -> dict[str, float]:
    """The first loss of a row that names none of the known ones."""
    for found in OTHER_LOSS.finditer(lower):
        name = plain(found[1].decode("utf-8", "replace"))
        if not PARTS.search(name):
            return {OTHER + name: float(found[2])}
    return {}


def _step(steps: dict[str, float], lower: bytes) -> int | None:
    """The step that a row names."""
    if rounded := ROUNDED.search(lower):
        return round(float(rounded[1]) * THOUSANDS[rounded[2]])
    step = next((int(steps[name]) for name in STEPS if _whole(steps.get(name))), None)
    if step is None and (b"step" in lower or b"iter" in lower) and (bare := BARE.search(lower)):
        return int(bare[1])
    return step


def _goes_on(values: dict[str, float], lower: bytes, curves: Curves) -> bool:
    """Whether an evaluation's row is of the same pass as the row before it: its mean so far takes
    the place of that one's."""
    part = PART_OF_PASS.search(lower) if values.keys() <= {HELD_OUT, TESTED} else None
    if part is None:
        curves.batch = None
        return False
    values.update(dict.fromkeys(values, float(part[2])))
    before, curves.batch = curves.batch, int(part[1])
    return before is not None and curves.batch > before


def _with_unit(lower: bytes) -> re.Match[bytes] | None:
    """The first number that belongs to the unit behind it, and not to a name before it."""
    for found in UNIT_BEHIND.finditer(lower):
        before = lower[max(0, found.start() - PART) : found.start()]
        if not (VALUE_AFTER.match(lower, found.end()) and NAME_BEFORE.search(before)):
            return found
    return None


def _of_one_kind(values: dict[str, float], lower: bytes) -> dict[str, float]:
    """The metrics of a training's row, or of an evaluation's."""
    if EVALUATED.search(lower):
        return {name: value for name, value in values.items() if name == HELD_OUT}
    if "loss" in values and not values.keys() & {HELD_OUT, TESTED}:
        before = lower[: lower.find(LOSS)]
        if kind := _word_of_evaluation(before):
            if AVERAGED in before or ONLY_EVALUATED.search(lower):
                return {}
            rate = {RATE: values[RATE]} if values.get(RATE) else {}
            return {TESTED if kind[0] == b"test" else HELD_OUT: values["loss"], **rate}
    return values


def _word_of_evaluation(before: bytes) -> re.Match[bytes] | None:
    """In the message of a row, or in all of it before the loss."""
    parts = (before.rpartition(LEVEL)[2], before)
    found = (OF_EVALUATION.search(part) for part in parts if b"train" not in part)
    return next(filter(None, found), None)


def _whole(value: float | None) -> bool:
    return value is not None and value == value and abs(value) < 2**53
