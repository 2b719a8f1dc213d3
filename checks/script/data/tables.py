"""Rules on tables: what is a feature, and which rows belong together in a split."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.data.items import ahead, future
from doctor.checks.script.rendering import expanded, formulas, lines, render, statements
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Span, Value

GROUPS = re.compile(r"(?:patient|subject|speaker|participant|person|animal|case|video|scene|series|"
                    r"recording)(?:_?(?:id|no|num|name|key|number))$|^(?:patient|subject|speaker)$",
                    re.IGNORECASE)  # fmt: skip
FORECASTS = ("forecast", "horizon", "lookback", "look_back", "pred_len", "n_ahead", "seq_len",
             "window_size", "sliding", "lag")  # fmt: skip
"""Names of which one occurs where later rows are predicted."""
TIMES = re.compile(r"^(?:\w*_)?(?:time|timestamp|date|datetime|day|hour|ts)$", re.IGNORECASE)


WINDOW = re.compile(r"(?P<of>[\w.]+)\[(?P<start>\w+):(?P<end>\((?P=start)\+[\w.]+\))\]")
LAST = re.compile(r"(?P<of>[\w.]+)\[\((?P<end>\(\w+\+[\w.]+\))-1\)\]")
TARGET = re.compile(r"(?:ys?|targets?|labels?|outputs?)(?:_(?:i|t|true|train|seq|batch))?")


def _last_of_window(reading: Training) -> Iterator[Match]:
    """x = series[i : i + n], y = series[i + n - 1]: the target is the last input."""
    given = [(a.target, a.text, a.span, a.scope) for a in reading.cached(lines)]
    yield from _last_of(given)
    appended = [
        (call.receiver, render(reading, call.args[0]), call.span, call.scope)
        for call in reading.named("append")
        if len(call.args) == 1
    ]
    yield from _last_of(appended)


def _last_of(given: list[tuple[str, str, Span, int]]) -> Iterator[Match]:
    """Of names that are assigned, or of lists that get whole windows and targets."""
    windows: dict[tuple[int, str], set[str]] = {}
    for name, text, span, scope in given:
        inside = WINDOW.fullmatch(text)
        if inside:
            windows.setdefault((scope, inside["of"]), set()).add(inside["end"])
        last = LAST.fullmatch(text)
        named = name.rpartition(".")[2].casefold()
        if last and last["end"] in windows.get((scope, last["of"]), ()) and TARGET.fullmatch(named):
            yield Match(span, f"{name} is the last value of the window before it")


def features(reading: Training) -> Iterator[Match]:
    """y = df["price"], and X is all of df."""
    yield from _centered(reading)
    yield from ahead(reading)
    yield from _last_of_window(reading)
    yield from future(reading)
    for each in reading.assignments:
        if each.target.casefold() not in ("y", "target", "targets", "labels"):
            continue
        target = re.match(r"(\w+)\[(\w+)\]$", each.value.name) or _column(reading, each)
        if target is None:
            continue
        table, column = target[1], target[2]
        for other in reading.assignments:
            if other.scope != each.scope or other.target not in ("X", "x", "features", "inputs"):
                continue
            text = render(reading, other.value)
            whole = re.match(
                rf"(?:\(?{table}(?:\.select_dtypes\([^()]*\)|\.astype\([^()]*\))*"
                r"(?:\.values|\.to_numpy\([^()]*\)|\.copy\(\))?\)?)$", text
            )  # fmt: skip
            if whole and not _removed(reading, table, each):
                yield Match(
                    other.span, f"{other.target} holds the column {column}, which is the target"
                )


def _column(reading: Training, each: Assignment) -> re.Match[str] | None:
    """df["price"].values, or df.price.values."""
    text = render(reading, each.value)
    return re.match(
        r"(\w+)\['(\w+)'\](?:\.values|\.to_numpy\([^()]*\)|\.astype\([\w.']*\))*$", text
    )


def _removed(reading: Training, table: str, each: Assignment) -> bool:
    """The column leaves the table somewhere, or the table is made anew."""
    texts = [text for text, _, _ in reading.cached(formulas)]
    drops = any(
        n in ("drop", "pop", "loc", "iloc", "difference", "filter") for n in reading.by_method
    )
    named = reading.assigned_to(table, each.scope)
    return drops or len(named) > 1 or any(f"del {table}" in t for t in texts)


def _centered(reading: Training) -> Iterator[Match]:
    """rolling(center=True) beside a target of later rows."""
    ahead = any(
        (v.kind == "other" and v.name == "USub")
        or (isinstance(v.literal, int) and not isinstance(v.literal, bool) and v.literal < 0)
        for other in reading.named("shift")
        for v in other.values
    )  # fmt: skip
    ahead |= reading.mentions(*FORECASTS)
    for call in reading.named("rolling") if ahead else ():
        center = call.keywords.get("center")
        if center is not None and center.literal is True:
            yield Match(
                call.span, "a centered window holds later rows, which are to be predicted", "warn"
            )


def rows_together(reading: Training) -> Iterator[Match]:
    if reading.mentions("groupkfold", "groupshufflesplit", "leaveonegroup", "groups", "groupby",
                        "timeseriessplit"):  # fmt: skip
        return
    splits = reading.named("train_test_split")
    splits = [
        c for c in splits if c.name.startswith("sklearn.") and c.args and _shuffles(reading, c)
    ]
    for call in splits:
        if re.search(
            r"unique\(|set\(|drop_duplicates|groups?\(", expanded(reading, call.args[0], call, 3)
        ):
            continue
        rows = _rows(reading, call.args[0], call)
        if copied := _copied(reading, call, rows):
            yield Match(
                call.span, f"{copied} repeats rows before the split: their copies are on both sides"
            )
        elif column := _grouped(reading, rows):
            yield Match(call.span, f"rows of one {column} are on both sides of the split")
        elif _in_order(reading, rows):
            yield Match(
                call.span, "rows in the order of time are split at random: the future trains"
            )


def _shuffles(reading: Training, call: Call) -> bool:
    value = call.keywords.get("shuffle")
    return value is None or evaluate.truth(reading, value, call) is True


def _rows(reading: Training, value: Value, call: Call, depth: int = 4) -> set[str]:
    """The names of the tables that hold the rows."""
    names = {name.partition("[")[0].partition(".")[0] for name in value.all_names if name}
    found = set(names)
    for name in names if depth else ():
        for each in reading.assigned_to(name, call.scope):
            if each.scope == call.scope and each.position <= reading.number(call):
                found |= (
                    _rows(reading, each.value, call, depth - 1) if each.value != value else set()
                )
    return found


def _copied(reading: Training, call: Call, rows: set[str]) -> str:
    """pd.concat([df] + [minority] * 9), or resample(minority, replace=True), of these rows."""
    for each in reading.assignments:
        if each.scope != call.scope or each.target not in rows:
            continue
        if each.position > reading.number(call):
            continue
        text = render(reading, each.value)
        if "concat(" in text and re.search(r"\(\w+\)\*\d+|\]\*\d+|\(\(\w+\)\*\w+\)", text):
            return each.target
        drawn = [n for n in each.value.calls if reading.calls[n].name == "sklearn.utils.resample"]
        if drawn and "n_samples" in reading.calls[drawn[0]].keywords:
            return "resample()"
    return ""


def _grouped(reading: Training, rows: set[str]) -> str:
    """A column that names patients or the like, of the rows that are split."""
    for value, _, _ in reading.expressions:
        for name in value.all_names:
            table, _, column = name.partition("[")
            if table in rows and GROUPS.search(column.removesuffix("]")):
                return column.removesuffix("]")
    for text, _, _ in reading.cached(statements):
        for table, column in re.findall(r"(\w+)\['(\w+)'\]", text):
            if table in rows and GROUPS.search(column):
                return str(column)
    return _of_one_row(reading, rows)


def _of_one_row(reading: Training, rows: set[str]) -> str:
    """row.patient_id of `row = self.df.iloc[i]`, where one table of the file is split."""
    tables = {c.receiver for c in reading.calls if c.method in ("read_csv", "read_parquet")}
    made = {t for c in reading.calls for t in c.targets if c.method in ("read_csv", "read_parquet")}
    if not tables or not made or not made <= rows or len(made) != 1:
        return ""
    taken = {
        a.target for a in reading.assignments if re.search(r"\.i?loc\[", render(reading, a.value))
    }
    for value, _, _ in reading.expressions:
        for name in value.all_names:
            owner, _, column = name.rpartition(".")
            if owner in taken and GROUPS.search(column):
                return column
    return ""


def _in_order(reading: Training, rows: set[str]) -> bool:
    """The rows were sorted by time, or hold values of earlier rows."""
    for call in reading.calls:
        root = {call.receiver.partition("[")[0], *call.targets}
        keys = [v for v in call.values]
        texts = [str(part.literal) for v in keys for part in (v, *v.items)]
        if call.method == "sort_values" and root & rows and any(map(TIMES.match, texts)):
            return True
        shifted = call.method == "shift" and call.receiver.partition("[")[0] in rows
        if shifted and call.args and reading.mentions("lag", "parse_dates", "datetime"):
            return True
    return False


RULES = (
    Rule(
        code="SCR349",
        slug="target-among-features",
        title="The target is not among the features",
        severity="fail",
        find=features,
        why="The network copies the target from its input: the result is perfect, and useless "
        "where the target is not known.",
        fires=(
            "y = df['price'] and X = df.values, and the column is never dropped",
            "x = s[i:i + n + 1] and y = s[i + n]: the window holds its target",
            "rolling(center=True) beside shift(-1) or a forecast, bfill() of a series, a "
            "feature that shift(-1) "
            "takes from a later row (warnings)",
        ),
        fix="X = df.drop(columns='price'); windows that end at the row.",
        sources=("sklearn-pitfalls",),
        needs=("pandas", "__getitem__", "append"),
    ),
    Rule(
        code="SCR350",
        slug="rows-that-belong-together",
        title="Rows that belong together are on one side of a split",
        severity="warn",
        find=rows_together,
        why="Copies of a row, images of one patient and neighbours in time resemble each other "
        "more than new data: the model is tested on what it has seen.",
        fires=(
            "train_test_split of rows that concat or resample repeated",
            "a shuffling train_test_split of rows with a column patient_id, subject_id, speaker",
            "the same of rows that are sorted by time, or that hold lags",
        ),
        fix="Split first, then repeat rows; use GroupShuffleSplit; split time series with "
        "shuffle=False.",
        sources=("sklearn-pitfalls", "sklearn-time-series"),
        needs=("train_test_split",),
        limits="that columns of other names hold no groups.",
    ),
)
