"""A score is of all that is held out: of each batch, of each process, of each sample."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.naming import is_held_out, is_loader, is_training, words
from doctor.checks.script.rendering import expanded, formulas, lines_of, render, statements
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call

SCORES = (
    "f1_score", "accuracy_score", "roc_auc_score", "precision_score", "recall_score",
    "confusion_matrix", "classification_report", "matthews_corrcoef", "r2_score",
    "mean_squared_error", "mean_absolute_error", "average_precision_score",
    "balanced_accuracy_score", "cohen_kappa_score",
)  # fmt: skip


def of_last_batch(reading: Training) -> Iterator[Match]:
    """pred is set in the loop over batches, and scored behind it."""
    for n, call in reading.numbered(reading.methods(*SCORES)):
        if not call.name.startswith("sklearn.metrics."):
            continue
        names = [name for v in call.args for name in v.all_names if name.isidentifier()]
        found = [_loop_of(reading, name, call, n) for name in dict.fromkeys(names)]
        loops = {loop for loop in found if loop is not None}
        if len(loops) == 1 and None not in found:
            yield Match(call.span, f"{call.method} is of the last batch alone: none is collected")


def _loop_of(reading: Training, name: str, call: Call, number: int) -> int | None:
    """The loop over a loader, behind which the call is, that binds the name anew each time."""
    given = [a for a in reading.assignments if a.target == name and a.scope == call.scope]
    before = [a for a in given if a.position <= number]
    for index, loop in reversed([*enumerate(reading.loops)]):
        iterable = loop.iterable
        if loop.scope != call.scope or iterable is None or index in call.loops:
            continue
        sources = [n for n in iterable.all_names if n]
        batches = any(is_loader(s) or is_held_out(s) for s in sources)
        inside = reading.by_loop.get(index, [])
        if not batches or not inside or inside[-1] > number:
            continue
        bound = name in loop.targets
        plain = [a for a in before if index in a.loops and not a.augmented]
        outer = [a for a in before if index not in a.loops]
        grows = any(name in a.value.names for a in plain)
        if (bound or plain) and not outer and not grows:
            return index
    return None


def summed(reading: Training) -> Iterator[Match]:
    """Losses with reduction='sum' are added up, and divided by the number of batches."""
    for each in reading.assignments:
        if not each.augmented or each.operator != "Add" or not each.loops:
            continue
        iterable = reading.iterable_of(each)
        loaders = [n for n in iterable.all_names if n] if iterable else []
        if not _is_sum(reading, each):
            continue
        for loader in loaders:
            by = re.compile(rf"\b{re.escape(each.target)}/(?:float\()?len\({re.escape(loader)}\)")
            for value, span, scope in reading.expressions:
                if scope == each.scope and by.search(render(reading, value)):
                    message = f"{each.target} adds sums, and is divided by the number of batches"
                    yield Match(span, message)
                    break


def _is_sum(reading: Training, each: Assignment) -> bool:
    for n in (each.value.call, *each.value.calls):
        call = reading.calls[n] if n >= 0 else None
        made = objects.known_callees(reading, call) if call else []
        for one in ([call] if call is not None else []) + made:
            value = one.keywords.get("reduction")
            if value is not None and value.literal == "sum":
                return True
    return False


def perplexities(reading: Training) -> Iterator[Match]:
    """ppls.append(exp(loss)) of windows or batches, and the mean of ppls."""
    for call in reading.named("append") if not reading.mentions("mean_perplexity") else ():
        loop = reading.loop_of(call)
        over = render(reading, loop.iterable) if loop is not None and loop.iterable else ""
        parts = re.match(r"(?:[\w.]+\()*range\([^,]+,[^,]+,|.*(?:loader|batches|_dl\b)", over)
        text = expanded(reading, call.args[0], call) if parts and call.args else ""
        of_loss = re.search(r"(?:^|\.)exp\(.*(?:loss|nll)", text)
        if parts and of_loss and (call.scope, call.receiver) in reading.cached(_averaged):
            message = "perplexities are averaged: take the exponential of the mean loss"
            yield Match(call.span, message)


MEAN = re.compile(
    r"(?:mean|average|sum)\(([\w.]+)\)|(?:stack|tensor|array|cat)\(([\w.]+)\)\.mean\("
)


def _averaged(reading: Training) -> set[tuple[int, str]]:
    """Lists whose mean a function takes."""
    texts = [(text, scope) for text, _, scope in reading.cached(formulas)]
    return {(scope, one or other) for text, scope in texts for one, other in MEAN.findall(text)}


def of_base_two(reading: Training) -> Iterator[Match]:
    """2 ** loss is no perplexity of a loss in nats."""
    texts = [(render(reading, v), s, scope) for v, s, scope in reading.expressions]
    for text, span, scope in texts:
        found = re.search(
            r"\(2\*\*(?P<loss>[\w.]*loss\w*)\)|\bpow\(2,(?P<two>[\w.]*loss\w*)\)", text
        )
        named = reading.mentions("ppl", "perplex", "vocab") or "cross_entropy" in reading.by_method
        if not found or not named or reading.mentions("log2", "bits", "bpc", "bpb"):
            continue
        own = found["loss"] or found["two"]
        made = reading.assigned_to(own, scope)
        nats = any(
            "cross_entropy" in render(reading, a.value)
            or "criterion" in render(reading, a.value)
            or ".loss" in render(reading, a.value)
            for a in made
        )
        if nats:
            yield Match(span, f"{own} is in nats: its perplexity is exp({own}), not 2**{own}")


def of_all_processes(reading: Training) -> Iterator[Match]:
    """The mean of each process is summed over all, and reported as a mean."""
    yield from _reduced_while_summing(reading)
    if reading.mentions("world_size", "reduceop", "get_world_size", "num_processes", "avg"):
        return
    for n, call in reading.numbered(reading.methods("all_reduce")):
        if call.name != "torch.distributed.all_reduce" or len(call.args) != 1 or call.keywords:
            continue
        value = call.args[0]
        text = expanded(reading, value, call, 1)
        mean = re.search(r"/len\(|\.mean\(|/\w*(?:num_batches|n_batches|steps)\b", text)
        if value.kind != "name" or not mean:
            continue
        later = [
            render(reading, v)
            for v, s, scope in reading.expressions
            if scope == call.scope and s.order > call.span.order
        ]
        divided = any(re.search(rf"\b{re.escape(value.name)}\b[^,]*/", t) for t in later)
        used = any(
            value.name in {n for v in c.args for n in v.all_names}
            for c in reading.named("print", "info", "log", "add_scalar", "write", "update")
            if c.scope == call.scope and c.span.order > call.span.order
        )
        if used and not divided:
            yield Match(
                call.span, f"{value.name} is the sum of all processes' means: it grows with them"
            )


def _reduced_while_summing(reading: Training) -> Iterator[Match]:
    """total += batch; all_reduce(total) in each batch: what was summed is summed again."""
    for call in reading.named("all_reduce") if reading.loops else ():
        name = call.args[0].name if call.args and call.args[0].kind == "name" else ""
        if not call.loops or not name or not call.name.startswith("torch.distributed."):
            continue
        loop = call.loops[-1]
        held = [a for a in reading.assigned_to(name, call.scope) if loop in a.loops]
        held += [a for a in reading.script.parts if loop in a.loops and a.scope == call.scope
                 and a.target.partition("[")[0] == name]  # fmt: skip
        grows = any(a.loops == call.loops for a in held)
        adds = _adds_up(call) and all(a.operator == "Add" for a in held)
        touched = {(loop, name), (loop, "break")} & reading.cached(_touched)
        if grows and adds and not touched:
            yield Match(
                call.span,
                f"{name} grows, and is reduced in every batch: earlier batches are "
                "summed over all processes again",
                fix=f"Call all_reduce({name}) once, behind the loop.",
            )


def _adds_up(call: Call) -> bool:
    """all_reduce() without an operation, or with SUM."""
    operation = call.given("op", 1)
    return operation is None or operation.name.endswith(".SUM")


def _touched(reading: Training) -> set[tuple[int, str]]:
    """What something else in a loop may scale or empty: its methods, its parts; "break" of a loop
    that ends before its time."""
    found = {(loop, call.receiver.partition("[")[0]) for call in reading.calls
             for loop in call.loops}  # fmt: skip
    found |= {(loop, a.target.partition("[")[0]) for a in reading.script.parts
              if not a.augmented for loop in a.loops}  # fmt: skip
    return found | {(loop, each.name) for each in reading.script.bare for loop in each.loops}


def overlapping(reading: Training) -> Iterator[Match]:
    """Subset(train_set, ...) evaluates, and a loader trains on the whole train_set."""
    loaders = reading.named("DataLoader")
    for call in loaders:
        name = call.target
        data = call.given("dataset", 0)
        if data is None or not is_held_out(name) or "test" in words(name):
            continue
        for option in evaluate.options(reading, data, call):
            part = reading.call_of(option)
            if part is None or part.method != "Subset" or not part.args:
                continue
            whole = part.args[0].name
            trains = [
                c
                for c in loaders
                if c is not call
                and whole
                and is_training(c.targets[0] if c.targets else "")
                and {"sampler", "batch_sampler"}.isdisjoint(c.keywords)
                and (c.args[0].name if c.args else "") == whole
                and c.scope == part.scope == call.scope
            ]
            again = len(reading.assigned_to(whole, part.scope)) > 1
            if trains and not again and is_training(whole):
                message = f"{name} reads a part of {whole}, all of which trains the model"
                yield Match(call.span, message)


def chosen_by(reading: Training, new: str, each: Assignment) -> bool:
    """new = evaluate(model, test_loader), beside a loader for validation."""
    others = {"val", "valid", "validation", "dev"}
    if not any(
        others & set(words(t)) for call in reading.named("DataLoader") for t in call.targets
    ):
        return False
    names = loaders_of(reading, new, each)
    return bool(names) and all("test" in words(name) for name in names)


def loaders_of(reading: Training, new: str, each: Assignment) -> list[str]:
    """test_loader of `new = evaluate(model, test_loader)` before an assignment of the best."""
    found = [
        a
        for a in reading.assignments
        if a.target == new.partition("[")[0]
        and a.scope == each.scope
        and a.position <= each.position
    ]
    calls = [n for made in found[-1:] for n in (made.value.call, *made.value.calls) if n >= 0]
    values = [v for n in calls for v in reading.calls[n].args]
    return [v.name for v in values if v.kind == "name" and is_loader(v.name)]


def epoch_scores(reading: Training) -> Iterator[Match]:
    yield from of_last_batch(reading)
    yield from of_base_two(reading)


BINARY = ("f1_score", "precision_score", "recall_score", "fbeta_score", "jaccard_score")
CLASSES = ("num_labels", "num_classes", "n_classes", "num_class")


def of_two_classes(reading: Training) -> Iterator[Match]:
    """f1_score(labels, argmax) of a model of four classes, without average."""
    counts = {
        v.literal
        for call in reading.calls
        for key in CLASSES
        if (v := call.keywords.get(key)) is not None
    }
    many = len(counts) == 1 and all(isinstance(n, int) and n > 2 for n in counts)
    for call in reading.named(*BINARY) if many else ():
        if not call.name.startswith("sklearn.metrics.") or len(call.args) != 2 or call.unpacked:
            continue
        text = expanded(reading, call.args[1], call, 2)
        if "average" not in call.keywords and "argmax(" in text and "labels" not in call.keywords:
            message = f"{call.method} is of two classes unless average is set: it raises"
            yield Match(call.span, message, "fail")


SHARE_OF_PROCESS = re.compile(
    r"\b(\w+)(?:\[\w+\])?(?:\.item\(\))?/len\((\w+\.sampler|\w*loader\w*)\)(?!\)?[/*])"
)


def of_process(reading: Training) -> Iterator[Match]:
    """A sum over all processes, divided by what one process reads."""
    summed = {(c.scope, c.args[0].name) for c in reading.calls
              if c.name == "torch.distributed.all_reduce" and len(c.args) == 1
              and not {"op", "async_op"} & c.keywords.keys()}  # fmt: skip
    for text, span, scope in reading.cached(statements) if summed else ():
        found = SHARE_OF_PROCESS.search(text)
        made = lines_of(reading, scope, found[1]) if found else []
        divided = any("world" in a.text for a in made)
        if found and (scope, found[1]) in summed and "size" not in text and not divided:
            yield Match(span, f"{found[1]} is of all processes, len({found[2]}) of one")
