"""Parts of the data that are made for training or evaluation, and that nothing reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import (
    HELD_OUT,
    TRAINING,
    is_held_out,
    is_loader,
    is_training,
    words,
)
from doctor.checks.script.rendering import lines
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Span

KINDS = re.compile(
    r"transforms?|tf|aug|mask|ids|idx|indices|index|\w*loader|dl|\w*dataset|\w+ds|ds|\w+set|set|nodes"
)
"""Words of parts that a training reads; labels may be left alone."""
BY_TEXT = ("globals", "locals", "vars", "eval", "exec", "getattr")
"""They read a name that is put together: nothing is known to be unread."""
SLICE = re.compile(r"\[[^\[\]:]*:[^\[\]:]*\]")
"""[:n] or [n:]; a step leaves every other sample, of a curve that is drawn over all."""
SAMPLES = {"ids", "idx", "idxs", "index", "indices", "samples"}


def training_unused(reading: Training) -> Iterator[Match]:
    """tf_train or train_mask is never read, while tf_val or test_mask is."""
    bound, read = reading.cached(_bound_and_read)
    twins = {_rest(name): name for name in bound if is_held_out(name) and name in read}
    for name, (span, _) in bound.items() if reading.backwards else ():
        twin = twins.get(_rest(name), "") if is_training(name) and name not in read else ""
        if twin:
            message = f"{name} is made and never read, {twin} is"
            yield Match(span, message, fix=f"Use {name} for what trains.")


def held_out_unused(reading: Training) -> Iterator[Match]:
    """val_loader is never read, and the loader that trains is read without gradients, too."""
    bound, read = reading.cached(_bound_and_read)
    loaders = [name for name in bound if is_held_out(name) and is_loader(name)]
    busy = {bound[name][1] for name in loaders if name in read}
    scopes = {bound[name][1] for name in loaders} - busy
    others = {scope: _evaluated(reading, scope) for scope in sorted(scopes)}
    for name in loaders:
        span, scope = bound[name]
        other = others.get(scope, "")
        if other:
            yield Match(
                span,
                f"{name} is made and never read: {other} trains, and is evaluated",
                fix=f"Evaluate on {name}.",
            )


def read_for_another(reading: Training) -> Iterator[Match]:
    """validate(val_loader) that reads train_loader; `if val_dir:` above val_files of train_dir."""
    for each in reading.script.raising if not reading.is_test else ():
        part = _part(each.nearest) if each.kind == "other" else 0
        if not part or _part(each.name) != -part:
            continue
        if each.owner.endswith("()"):
            message = f"{each.owner} reads {each.name}, and never its parameter {each.nearest}"
        elif _part(each.owner) == part:
            message = f"{each.owner} is made of {each.name}, and nothing of {each.nearest}"
        else:
            continue
        yield Match(each.span, message, fix=f"Read {each.nearest}.")


def _part(name: str) -> int:
    """1 for what is held out, -1 for training, 0 for neither."""
    return is_held_out(name) - is_training(name)


def _bound_and_read(reading: Training) -> tuple[dict[str, tuple[Span, int]], set[str]]:
    """Names of parts with their place and function, and names that are read anywhere."""
    bound = {
        line.target: (line.span, line.scope)
        for line in reading.cached(lines)
        if line.target.isidentifier()
        and (is_training(line.target) or is_held_out(line.target))
        and any(KINDS.fullmatch(word) for word in words(line.target))
        and not (line.augmented or line.value.kind == "literal")
    }
    if not bound or any(reading.calls[n].name in BY_TEXT for n in reading.methods(*BY_TEXT)):
        return {}, set()
    values = [value for value, _, _ in reading.expressions]
    values += [b.test for b in reading.branches if b.test is not None]
    values += [v for c in reading.comparisons for v in (c.left, c.right)]
    values += [loop.iterable for loop in reading.loops if loop.iterable is not None]
    values += [c.base for c in reading.calls if c.base is not None]
    names = [n for v in values for n in v.all_names]
    names += [part for call in reading.calls for part in (call.receiver, call.name)]
    names += [line.target.partition("[")[2] for line in reading.cached(lines)]
    return bound, {part for name in set(names) for part in re.findall(r"\w+", name)}


def _rest(name: str) -> tuple[str, ...]:
    """What of a name is not the part: tf of tf_val."""
    short = (re.sub(r"^(?:train|val|valid|test|eval)(?=\w)", "", w) for w in words(name))
    return tuple(w for w in short if not HELD_OUT.fullmatch(w) and not TRAINING.fullmatch(w))


def _evaluated(reading: Training, scope: int) -> str:
    """A loader that one loop trains on, and that another scores without gradients, or that a
    function of the file for evaluation gets."""
    trained: set[str] = set()
    quiet = {
        value.name
        for call in reading.calls_in(scope)
        if re.search(r"eval|valid|test", call.method) and "train" not in call.method
        and reading.target_function(call) is not None
        for value in call.args if is_training(value.name)
    }  # fmt: skip
    trained |= quiet
    for number, loop in enumerate(reading.loops):
        inside = reading.by_loop.get(number, ())
        if loop.scope != scope or loop.iterable is None or not inside:
            continue
        names = {n for n in loop.iterable.all_names if n.isidentifier()}
        if not reading.backward_numbers.isdisjoint(inside):
            trained |= names
        elif number in reading.cached(_collecting):
            silent = all(reading.under_no_grad(reading.calls[n].contexts) for n in inside)
            quiet |= names if silent else set()
    return min(trained & quiet, default="")


def _collecting(reading: Training) -> set[int]:
    """Loops that add something up, or append it."""
    found = {loop for a in reading.assignments if a.augmented for loop in a.loops}
    return found | {loop for call in reading.named("append", "extend") for loop in call.loops}


def whole_held_out(reading: Training) -> Iterator[Match]:
    """train_ids = nodes[:1000] and test_ids = nodes: the test has what trained."""
    table = reading.cached(lines)
    cut = {(line.scope, SLICE.sub("", line.text)): line for line in table
           if is_training(line.target) and SAMPLES & set(words(line.target))
           and len(SLICE.findall(line.text)) == 1}  # fmt: skip
    for line in table if cut else ():
        whole = cut.get((line.scope, line.text))
        if whole is not None and is_held_out(line.target) and not line.arms:
            message = f"{line.target} is the whole of which {whole.target} is a part"
            yield Match(line.span, message, fix=f"Cut it from what {whole.target} leaves.")
