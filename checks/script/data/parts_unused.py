"""Parts of the data that are made for training or evaluation, and that nothing reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import HELD_OUT, TRAINING, is_held_out, is_training, words
from doctor.checks.script.rendering import lines
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

KINDS = {"transform", "transforms", "tf", "aug", "mask", "ids", "idx", "indices", "index", "loader",
         "dl", "dataloader", "dataset", "ds", "set", "nodes"}  # fmt: skip
"""Words of parts that a training reads; labels may be left alone."""
SLICE = re.compile(r"\[[^\[\]]*:[^\[\]]*\]")


def parts_unused(reading: Training) -> Iterator[Match]:
    """tf_train or train_mask is never read, while tf_val or test_mask is."""
    if not reading.backwards:
        return
    table = reading.cached(lines)
    bound = {line.target: line for line in table if line.target.isidentifier()}
    parts = {name: line for name, line in bound.items() if _is_part(name)}
    read = reading.cached(_names_read) if parts else {}
    for name, line in parts.items():
        if name in read or line.augmented or line.value.kind == "literal":
            continue
        if is_training(name):
            twin = next((n for n in bound if is_held_out(n) and _rest(n) == _rest(name)), "")
            if read.get(twin, 0):
                yield Match(
                    line.span,
                    f"{name} is made and never read, {twin} is",
                    fix=f"Use {name} for what trains.",
                )
        elif other := _evaluated_instead(reading, line.scope):
            yield Match(
                line.span,
                f"{name} is made and never read: {other} trains, and is evaluated",
                fix=f"Loop over {name} in the evaluation.",
            )


def _is_part(name: str) -> bool:
    named = set(words(name))
    joined = any(w.startswith(("train", "val", "test")) and w[-2:] in ("er", "et", "dl", "ds")
                 for w in named)  # fmt: skip
    return (is_training(name) or is_held_out(name)) and (joined or bool(named & KINDS))


def _rest(name: str) -> tuple[str, ...]:
    """What of a name is not the part: tf of tf_val."""
    short = (re.sub(r"^(?:train|val|valid|test|eval)(?=\w)", "", w) for w in words(name))
    return tuple(w for w in short if not HELD_OUT.fullmatch(w) and not TRAINING.fullmatch(w))


def _names_read(reading: Training) -> dict[str, int]:
    """How often each name is read, anywhere in the file."""
    count: dict[str, int] = {}
    values = [value for value, _, _ in reading.expressions]
    values += [b.test for b in reading.branches if b.test is not None]
    values += [v for c in reading.comparisons for v in (c.left, c.right)]
    values += [loop.iterable for loop in reading.loops if loop.iterable is not None]
    values += [c.base for c in reading.calls if c.base is not None]
    names = [n for v in values for n in v.all_names]
    names += [part for call in reading.calls for part in (call.receiver, call.name)]
    names += [context.value.name for context in reading.script.contexts]
    for name in names:
        root = name.partition(".")[0].partition("[")[0]
        count[root] = count.get(root, 0) + 1
    return count


def _evaluated_instead(reading: Training, scope: int) -> str:
    """A loader that one loop trains on, and that another reads without gradients."""
    trained: set[str] = set()
    quiet: set[str] = set()
    for number, loop in enumerate(reading.loops):
        inside = reading.by_loop.get(number, ())
        if loop.scope != scope or loop.iterable is None or not inside:
            continue
        names = {n for n in loop.iterable.all_names if n.isidentifier()}
        if not reading.backward_numbers.isdisjoint(inside):
            trained |= names
        elif all(reading.under_no_grad(reading.calls[n].contexts) for n in inside):
            quiet |= names
    return next(iter(sorted(trained & quiet)), "")


def whole_held_out(reading: Training) -> Iterator[Match]:
    """train_ids = nodes[:1000] and test_ids = nodes: the test has what trained."""
    table = reading.cached(lines)
    cut = {(line.scope, SLICE.sub("", line.text)): line for line in table
           if is_training(line.target) and len(SLICE.findall(line.text)) == 1}  # fmt: skip
    for line in table if cut else ():
        whole = cut.get((line.scope, line.text))
        if whole is not None and is_held_out(line.target) and not line.arms:
            yield Match(
                line.span,
                f"{line.target} is the whole of which {whole.target} is a part",
                fix=f"Cut {line.target} from what {whole.target} leaves.",
            )
