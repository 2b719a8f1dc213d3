"""Rules on what a dataset of the file returns: how many items, which numbers, of which time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.data.whole_files import read_for_a_row
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import render, statements
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Function, Value

SEEDS = ("seed", "manual_seed", "seed_everything", "set_seed", "default_rng", "RandomState")
BATCHES = re.compile(r"(?:^|\.|_)(?:batch_?size|bs|bsz|batch)$", re.IGNORECASE)
SLICE = r"(?P<{0}>[\w.]+)\[(?:\()?(?P<{1}>[^:\[\]]*):(?P<{2}>[^\[\]:]+)"


def items(reading: Training) -> Iterator[Match]:
    for number, function in enumerate(reading.script.functions):
        if function.name == "__len__":
            yield from _of_batches(reading, function)
        if function.name == "__getitem__":
            yield from _seeded(reading, number)
            yield from read_for_a_row(reading, number, function)


def _of_batches(reading: Training, function: Function) -> Iterator[Match]:
    """len(self.x) // batch_size, and items are single samples."""
    index = next(
        (
            p.name
            for n, f in enumerate(reading.script.functions)
            if f.name == "__getitem__" and f.owner == function.owner
            for p in f.parameters[1:2]
        ),
        "",
    )
    own = [
        n
        for n, f in enumerate(reading.script.functions)
        if f.name == "__getitem__" and f.owner == function.owner
    ]
    values = [(render(reading, v), v) for v, _, scope in reading.expressions if scope in own]
    plain = any(re.search(rf"\[{re.escape(index)}\]", t) for t, _ in values) if index else False
    scaled = any(
        re.search(rf"\b{re.escape(index)}\*|\*{re.escape(index)}\b|{re.escape(index)}\+1", t)
        for t, _ in values
    )
    for value, span in zip(function.returns, function.exit_spans, strict=False):
        text = render(reading, value)
        found = re.fullmatch(
            r"\(len\(self\.\w+\)//([\w.]+)\)|int\(\(len\(self\.\w+\)/([\w.]+)\)\)", text
        )
        by = (found[1] or found[2]) if found else ""
        sized = BATCHES.search(by) or _is_batch_size(reading, by)
        if sized and plain and not scaled:
            yield Match(
                span,
                "__len__ counts batches, and an item is a sample: the rest is never read",
                fix="Return len(self.x).",
            )


def _is_batch_size(reading: Training, text: str) -> bool:
    """The number that the loaders of the file take as batch_size."""
    if not text.isdigit() or text == "1":
        return False
    sizes = [
        v.literal
        for n in reading.methods("DataLoader")
        for v in (reading.calls[n].args[1:2] or [*_size(reading, n)])
    ]
    return int(text) in sizes


def _size(reading: Training, number: int) -> Iterator[Value]:
    value = reading.calls[number].keywords.get("batch_size")
    if value is not None:
        yield value


def _seeded(reading: Training, number: int) -> Iterator[Match]:
    """np.random.seed(0) in __getitem__: each item gets the same numbers."""
    for call in reading.calls_in(number):
        if call.method not in SEEDS or not call.args or call.args[0].kind != "literal":
            continue
        held = any(re.search("train|eval|test|val|mode|split", t.text) for t in reading.tests(call))
        if isinstance(call.args[0].literal, int) and not held:
            yield Match(
                call.span,
                "each item draws the same numbers: the seed is set in __getitem__",
                fix="Seed once, before the loader is made.",
            )


def ahead(reading: Training) -> Iterator[Match]:
    """The window of inputs holds the value that is to be predicted."""
    windows: dict[tuple[str, int], tuple[str, str]] = {}
    texts = [*reading.cached(statements)]
    texts += [
        (render(reading, v), call.span, call.scope)
        for call in reading.named("append")
        for v in call.args
    ]
    for text, _, scope in texts:
        found = re.search(
            r"(?P<name>[\w.]+)\[(?:\(?,?)?(?P<start>\w+):\(?(?P<stop>[\w+.]+)\)?[\],]", text
        )
        if found and found["stop"].startswith(found["start"]):
            windows.setdefault((found["name"], scope), (found["start"], found["stop"]))
    for text, span, scope in texts:
        found = re.search(
            r"^(?:torch\.\w+\()?(?P<name>[\w.]+)\[\(?(?P<at>[\w+.-]+?)\)?(?:,[^\]:]*)?\]", text
        )
        start, stop = windows.get((found["name"], scope), ("", "")) if found else ("", "")
        at = found["at"] if found else ""
        last = re.fullmatch(r"(.+)\+1", stop)
        if stop and (f"{stop}-1" == at or (last and last[1] == at and at != start)):
            yield Match(span, f"the window up to {stop} holds the target at {at}")


FILLS = ("bfill", "backfill")
TIMES = ("shift", "rolling", "parse_dates", "to_datetime", "resample", "dropna_time")


GOALS = re.compile(r"target|label|^y|y$|truth|signal|goal|outcome")


def _inputs(reading: Training) -> Iterator[Value]:
    """What is assigned to names that are not for targets, and what calls receive."""
    for each in reading.assignments:
        if not GOALS.search(each.target.casefold()):
            yield each.value
            for n in each.value.calls:
                made = reading.calls[n]
                yield from (*made.args, *([made.base] if made.base is not None else []))


def future(reading: Training) -> Iterator[Match]:
    """Rows of a series that are filled with later values, and features that are shifted back."""
    if reading.imports_from("pandas") and reading.mentions(*TIMES):
        for call in reading.calls:
            method = call.keywords.get("method")
            filled = call.method in FILLS or (
                call.method == "fillna" and method is not None and method.literal in FILLS
            )
            if filled and call.receiver.partition("[")[0] not in ("train", "train_df"):
                yield Match(
                    call.span, "gaps are filled with later values, unknown at that time", "warn"
                )
    listed = [
        [str(v.literal) for v in part.items if isinstance(v.literal, str)]
        for value in _inputs(reading)
        for part in flatten([value])
        if part.kind == "list" and len(part.items) > 1
    ]
    for each in reading.assignments:
        found = re.search(r"\[(\w+)\]$", each.target)
        if not found or not re.search(r"\.shift\(-\d", render(reading, each.value)):
            continue
        column = found[1]
        named = GOALS.search(column.casefold())
        if not named and any(
            column in names and not all(GOALS.search(n.casefold()) or n == column for n in names)
            for names in listed
        ):
            yield Match(each.span, f"{column} is of a later row, and among the features", "warn")


RULES = (
    Rule(
        code="SCR392",
        slug="items-of-a-dataset",
        title="A dataset has as many items as samples, and each is read and drawn on its own",
        severity="warn",
        find=items,
        why="The loader makes batches of items: a length in batches hides all samples behind it. A "
        "seed in __getitem__ gives each item the same noise, crop or flip. A file that is read "
        "whole for each of its rows keeps the GPU waiting.",
        fires=(
            "__len__ returns len(self.x) // batch_size, and __getitem__ reads self.x[i]",
            "a constant seed that __getitem__ sets",
            "pd.read_parquet(path).iloc[i], np.load(path)[i] or json.load(file)[i] in __getitem__",
        ),
        fix="Return len(self.x); seed once, before the loader is made; read a file once.",
        sources=("torch-dataloader",),
        needs=("__getitem__", "__len__"),
    ),
)
