"""A rule on metrics that see the data of one process."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.loop.order import calls_reached
from doctor.checks.script.metrics.averages import is_count
from doctor.checks.script.ranks import ddp_calls, is_accelerator
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call

Key = tuple[object, str]
"""The function or class that owns a name, and the name."""


def not_gathered(reading: Training) -> Iterator[Match]:
    prepares = [n for n in reading.methods("prepare") if is_accelerator(reading, reading.calls[n])]
    prepared = {key for n in prepares for key in _targets(reading, reading.calls[n])}
    if prepared:
        yield from _kept_repeats(reading, prepared)
    if not reading.mentions("gather", "reduce", "process_id", "num_process", "torchmetrics"):
        yield from _own_share(reading, prepared | (_sampled(reading) if not prepared else set()))
    yield from _not_synchronized(reading)
    yield from _stops_apart(reading)


COLLECTIVE = re.compile(r"gather|broadcast|reduce(?!lronplateau)|sync_(?!batch)|synchronize_|"
                        r"torchmetrics|across|_ranks|_processes")  # fmt: skip
STOP = re.compile(r"stop|patience|exhausted|early|no_improve|bad_", re.IGNORECASE)


def _stops_apart(reading: Training) -> Iterator[Match]:
    """Each process leaves the loop by the metric of its own share: the others wait for it."""
    shares = _sampled(reading) if reading.methods("DistributedSampler") else set()
    if not shares or any(COLLECTIVE.search(n.casefold()) for n in reading.script.identifiers):
        return
    for call in reading.calls:
        function = reading.target_function(call) if call.loops and call.targets else None
        over = {reading.key(v.name, call.scope) for v in call.values} & shares
        if function is None or not over or any("rank" in t.text for t in reading.tests(call)):
            continue
        trains = calls_reached(reading, reading.scope_calls(function))
        if reading.backward_numbers.isdisjoint(trains) and _decides_to_stop(reading, call):
            message = f"each process stops by the {call.targets[0]} of its own share"
            yield Match(call.span, f"{message}: the others wait for it", "fail")
            return


def _decides_to_stop(reading: Training, call: Call) -> bool:
    """The result is compared beside a patience, or given to an object of this file that stops."""
    tests = [b.test for b in reading.branches if b.guard and b.test is not None]
    tests = [test for test in tests if STOP.search(test.text)]
    asked = {name for test in tests for name in test.all_names}
    given = set(call.targets)
    for n in reading.by_loop.get(call.loops[-1], ()):
        each = reading.calls[n]
        owners = [reading.function(f).owner for f in reading.functions_by_name.get(each.method, ())]
        told = each.scope == call.scope and not given.isdisjoint(v.name for v in each.args)
        if told and any(owners) and each.receiver in {name.rpartition(".")[0] for name in asked}:
            return True
    here = [c for c in reading.comparisons if c.scope == call.scope]
    better = any(not given.isdisjoint((c.left.name, c.right.name)) for c in here)
    waits = any(
        STOP.search(f"{c.left.name} {c.right.name}") and asked & {c.left.name, c.right.name} - {""}
        for c in here
    )
    return better and waits


def _own_share(reading: Training, loaders: set[Key]) -> Iterator[Match]:
    """A metric, or a count, over the share of one process."""
    if not loaders:
        return
    for call in reading.named("add_batch", "add"):
        loaded = evaluate.receivers(reading, call)
        known = [reading.calls[v.call].name for v in loaded if v.kind == "call"]
        if (
            _over(reading, call) & loaders
            and known
            and all(name in ("evaluate.load", "datasets.load_metric") for name in known)
        ):
            yield Match(call.span, f"{call.receiver} sees the share of one process only")
    for each in reading.assignments:
        trains = set(each.loops[-1:]) & {
            loop for n in reading.backwards for loop in reading.calls[n].loops[-1:]
        }
        counts = each.augmented and not trains and is_count(reading, each.value)
        if counts and _over(reading, each) & loaders:
            yield Match(each.span, f"{each.target} counts the share of one process only")
            return


def _over(reading: Training, place: Call | Assignment) -> set[Key]:
    """What the innermost loop reads, also where all callers pass it for a parameter."""
    iterable = reading.loops[place.loops[-1]].iterable if place.loops else None
    waiting = [(name, place.scope) for name in iterable.all_names] if iterable is not None else []
    found: set[Key] = set()
    while waiting:
        name, scope = waiting.pop()
        key = reading.key(name, scope)
        if key in found:
            continue
        found.add(key)
        if scope and evaluate.is_parameter(reading, scope, name):
            for site in reading.callers(scope):
                given = evaluate.argument_of(reading, site, scope, name)
                if given is not None and given.kind == "name":
                    waiting.append((given.name, site.scope))
    return found


def _targets(reading: Training, call: Call) -> set[Key]:
    return {reading.key(target, call.scope) for target in call.targets}


def _sampled(reading: Training) -> set[Key]:
    """Loaders of a DistributedSampler in a file with DDP."""
    found: set[Key] = set()
    for n, call in reading.numbered(reading.methods("DataLoader") if ddp_calls(reading) else ()):
        made = evaluate.options(reading, call.keywords.get("sampler"), call)
        if made and all(
            v.kind == "call" and reading.calls[v.call].method == "DistributedSampler" for v in made
        ):
            found |= _targets(reading, call) or _assigned_of(reading, n)
    return found


def _assigned_of(reading: Training, number: int) -> set[Key]:
    """The names that callers give to what a function of this file returns."""
    function = reading.calls[number].scope
    returns = reading.function(function).returns if function else ()
    sites = reading.callers(function)
    if len(returns) != 1:
        return set()
    parts = returns[0].items if returns[0].kind == "list" else returns
    places = [n for n, part in enumerate(parts) if part.kind == "call" and part.call == number]
    return {
        reading.key(site.targets[n], site.scope)
        for site in sites
        for n in places
        if len(site.targets) == len(parts)
    }


def _kept_repeats(reading: Training, prepared: set[Key]) -> Iterator[Match]:
    """gather() keeps the samples that fill the last batch; gather_for_metrics() drops them."""
    if reading.mentions("gather_for_metrics", "remainder", "samples_seen", "even_batches"):
        return
    for call in reading.named("gather"):
        names = {n.casefold() for v in call.args for n in v.all_names}
        outputs = any(word in name for name in names
                      for word in ("pred", "label", "logit", "ref", "target"))  # fmt: skip
        inside = [n for loop in call.loops[-1:] for n in reading.by_loop.get(loop, ())]
        trains = not reading.backward_numbers.isdisjoint(calls_reached(reading, inside))
        cut = any(
            part.kind == "slice" and any(other.name == "len" for other in reading.inside(part))
            for value, _, scope in reading.expressions
            if scope == call.scope
            for part in flatten([value])
        )
        over = is_accelerator(reading, call) and _over(reading, call) & prepared
        if over and outputs and not trains and not cut:
            yield Match(call.span, "gather() keeps the samples that fill up the last batch")
            return


def _not_synchronized(reading: Training) -> Iterator[Match]:
    """self.log() of a value in validation_step on several devices, without sync_dist."""
    several = any(
        v.literal in SEVERAL
        for other in reading.named("Trainer")
        if other.name.startswith(("lightning.", "pytorch_lightning."))
        for key, v in other.keywords.items()
        if v.kind == "literal" and key in ("strategy", "devices")
    )
    for call in reading.named("log", "log_dict") if several else ():
        step = reading.function(call.scope).name in ("validation_step", "test_step")
        value = call.given("value", 1)
        if not step or call.receiver != "self" or "sync_dist" in call.keywords or value is None:
            continue
        metric = value.name.startswith("self.") or reading.mentions("torchmetrics", "all_gather")
        if not metric and value.kind in ("name", "call") and not call.unpacked:
            yield Match(call.span, "each process logs the mean of its share: sync_dist is False")
            return


SEVERAL = (*range(2, 65), "ddp", "fsdp", "ddp_find_unused_parameters_true", "deepspeed")


RULES = (
    Rule(
        code="SCR296",
        slug="metric-not-gathered",
        title="Metrics see the data of all processes",
        severity="warn",
        find=not_gathered,
        why="A loader that accelerate prepared gives each process a share: the metric that the "
        "main process prints is of its own.",
        fires=(
            "add_batch(), or a count of right answers, in a loop over a prepared loader or one of "
            "a DistributedSampler, and no gather or reduce in the file",
            "gather() of predictions in place of gather_for_metrics(), and nothing cut off",
            "self.log() of validation_step without sync_dist, and a Trainer of Lightning with "
            "several devices",
            "each process stops early by the metric of its share of a DistributedSampler (a "
            "failure)",
        ),
        fix="Pass what accelerator.gather_for_metrics((predictions, labels)) returns; all_reduce "
        "counts; call self.log(..., sync_dist=True).",
        needs=("Accelerator", "DistributedSampler", "LightningModule"),
        errors=("each process stops early by the metric of its own share",),
        sources=("accelerate-226", "accelerate-574", "lightning-hardware-agnostic"),
    ),
)
