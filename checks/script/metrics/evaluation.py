"""Rules on evaluation within a training script."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from doctor.checks.script import objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.objects import MODE_LAYERS
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value


def never_evaluates(reading: Training) -> Iterator[Match]:
    yield from trains_under_no_grad(reading)
    if not reading.backwards or reading.trainers or reading.fits:
        return
    evals = [c for c in reading.named("eval") if not c.args or c.args[0].kind != "dict"]
    if evals or reading.methods("train_mode", "set_mode") or any(
        other.args or other.keywords for other in reading.named("train")
    ):  # fmt: skip
        return
    if not reading.cached(_with_mode):
        return
    for number, call in enumerate(reading.calls):
        if not call.loops or not _is_evaluating(reading, call):
            continue
        key = reading.key(call.name, call.scope)
        if key in reading.trained_names and _has_mode(reading, call, number):
            message = f"{call.name} is evaluated as it trains: eval() is called nowhere"
            yield Match(call.span, message)
            return


def _with_mode(reading: Training) -> list[Call]:
    """Layers that compute something else in evaluation; F.dropout(x, p, self.training)."""
    switched = [
        c for c in reading.named("dropout") if any(v.name == "self.training" for v in c.values)
    ]
    layers = [c for c in reading.named(*MODE_LAYERS) if c.name.startswith("torch.nn.")]
    return layers + switched


def trains_under_no_grad(reading: Training) -> Iterator[Match]:
    """train() on what trains, within no_grad, in no function that wants it so."""
    if reading.mentions("update_bn", "mc_dropout", "calibrat", "recalib", "rcnn", "retinanet"):
        return  # detectors of torchvision give their losses in training mode alone
    for number, call in reading.numbered(reading.methods("train")):
        last = [n for n in reading.scope_calls(call.scope) if n > number]
        back = any(reading.calls[n].method == "eval" for n in last[:4])
        if call.args or call.keywords or back or not call.receiver:
            continue
        if reading.under_no_grad(call.contexts) and (
            reading.key(call.receiver, call.scope) in reading.trained_names
        ):
            until = takewhile(lambda n: reading.calls[n].method != "eval", last)
            runs = [reading.calls[n] for n in until if reading.calls[n].name == call.receiver]
            if any(reading.under_no_grad(run.contexts) for run in runs):
                yield Match(call.span, f"{call.receiver} is set to training mode, and evaluated")


def _is_evaluating(reading: Training, call: Call) -> bool:
    """In no loop that trains, under no_grad or before a loss that nothing propagates; or behind
    the step of a full batch, under no_grad, for a decision."""
    trains = [n for n in reading.by_loop[call.loops[-1]] if n in reading.backward_numbers]
    if trains:
        later = reading.number(call) > max(trains) and reading.is_without_graph(call)
        return later and _is_decided(reading, call)
    if reading.is_without_graph(call):
        return True
    return any(
        reading.calls[n].loops == call.loops
        and any(
            value.kind == "name" and value.name in call.targets for value in reading.calls[n].args
        )
        for n, _ in loss_calls(reading)
    ) and _only_numbers(reading, call)


def _is_decided(reading: Training, call: Call) -> bool:
    """argmax, or a threshold, of the result: model(x).argmax(1), or model(x) > 0."""
    number, names = reading.number(call), set(call.targets)
    picks = [c for c in reading.named("argmax", "max", "round") if c.loops == call.loops]
    tests = [v for c in reading.comparisons for v in (c.left, c.right) if c.scope == call.scope]
    return any(
        c.receiver_call == number or c.receiver in names or any(number in v.calls or
        v.name in names for v in c.args) for c in picks
    ) or any(number in (v.call, *v.calls) or names & set(v.all_names) for v in tests)  # fmt: skip


def _only_numbers(reading: Training, call: Call) -> bool:
    """What the loop adds up is read by item(): no backward() follows."""
    return any(reading.calls[n].method == "item" for n in reading.by_loop[call.loops[-1]])


def _has_mode(reading: Training, call: Call, number: int) -> bool:
    """The model, of this file, makes a layer whose result depends on the mode."""
    value = Value("name", name=call.name)
    for made in objects.makers(reading, value, call.scope, number, call.arms):
        if made is None:
            continue
        if made.name in reading.modules:
            owners = {reading.function(c.scope).owner for c in reading.cached(_with_mode)}
            if made.name in owners:
                return True
        if any(other.method in MODE_LAYERS for v in made.args for other in reading.inside(v)):
            return True
    return False


def keeps_graphs(reading: Training) -> Iterator[Match]:
    if reading.mentions("set_grad_enabled"):
        return
    for number, call in reading.numbered(reading.methods("eval")):
        key = reading.key(call.receiver, call.scope)
        if call.args or key not in reading.trained_names or not _scope_is_open(reading, call):
            continue
        for n, run in _runs_after(reading, number, key):
            if target := next(_collected(reading, run, n), ""):
                yield Match(run.span, f"{target} keeps the graph of every batch of the evaluation")
                break


def _runs_after(
    reading: Training, number: int, key: tuple[object, str]
) -> Iterator[tuple[int, Call]]:
    """Calls of the model in loops after eval(), with a graph and without a backward()."""
    reading.step(len(reading.scope_calls(reading.calls[number].scope)))
    for n, run in reading.numbered(reading.scope_calls(reading.calls[number].scope)):
        if n < number or not run.loops or reading.key(run.name, run.scope) != key:
            continue
        trains = any(b in reading.backward_numbers for b in reading.by_loop[run.loops[0]])
        again = _train_between(reading, number, n, key)
        if not (trains or again or reading.is_without_graph(run)):
            yield n, run


def _scope_is_open(reading: Training, call: Call) -> bool:
    """No caller in this file runs the function under no_grad, and one is there."""
    if not call.scope:
        return True
    sites = reading.callers(call.scope)
    return bool(sites) and not any(reading.is_without_graph(site) for site in sites)


def _train_between(reading: Training, first: int, last: int, key: tuple[object, str]) -> bool:
    return any(
        first < n < last and reading.key(reading.calls[n].receiver, reading.calls[n].scope) == key
        for n in reading.methods("train")
    )


def _collected(reading: Training, run: Call, number: int) -> Iterator[str]:
    """Lists and sums outside of the loop that receive the output or its loss."""
    names = set(run.targets)
    one = len(names) == 1
    for each in reading.assignments:
        if each.scope != run.scope or run.loops[-1] not in each.loops or each.position < number:
            continue
        value = each.value
        tensors = names if one else names - set(run.targets)
        if each.augmented and _is_tensor(reading, value, tensors):
            yield each.target
        elif value.kind == "call" and _is_loss(reading, reading.calls[value.call], names):
            names.add(each.target)
    for call in reading.named("append"):
        if call.scope == run.scope and run.loops[-1] in call.loops and len(call.args) == 1:
            value = _reshaped(reading, call.args[0])
            tensors = names if one else names - set(run.targets)
            if _is_tensor(reading, value, tensors) or (
                value.kind == "call" and value.call == number
            ):
                yield call.receiver


KEEPS = {
    "squeeze", "unsqueeze", "view", "reshape", "flatten", "float", "sigmoid", "softmax", "cpu",
    "log_softmax", "tanh", "exp", "contiguous", "to",
}  # fmt: skip
"""Methods whose result has the graph of what they are called on."""


def _reshaped(reading: Training, value: Value) -> Value:
    """What x.squeeze(1).cpu() is called on."""
    while value.kind == "call" and (call := reading.calls[value.call]).method in KEEPS:
        inner = objects.operand(call)
        if inner is None:
            break
        value = inner
    return value


def _is_tensor(reading: Training, value: Value, names: set[str]) -> bool:
    """The tensor itself, or a product of it with something."""
    if value.kind == "name":
        return value.name in names
    return value.kind in ("other", "list") and any(
        _is_tensor(reading, item, names) for item in value.items
    )


def _is_loss(reading: Training, call: Call, names: set[str]) -> bool:
    """The loss of an output, by a function of torch or an object that the file makes."""
    if not any(value.kind == "name" and value.name in names for value in call.args):
        return False
    made = objects.callee(reading, call)
    return call.name.startswith("torch.nn.functional.") or any(
        each is not None and each.name.startswith("torch.nn.") for each in made
    )


def context_not_entered(reading: Training) -> Iterator[Match]:
    for each in reading.script.contexts:
        value = each.value
        if value.kind == "name" and value.name in (
            "torch.no_grad", "torch.inference_mode", "torch.enable_grad",
        ):  # fmt: skip
            yield Match(each.span, f"with {value.name}: is not called, and raises")


def cache_emptied(reading: Training) -> Iterator[Match]:
    for call in reading.named("empty_cache"):
        if call.name != "torch.cuda.empty_cache" or not call.loops or reading.is_evaluation(call):
            continue
        inner = [
            n
            for n in reading.backwards
            if reading.calls[n].loops == call.loops and reading.calls[n].scope == call.scope
        ]
        if any(reading.calls[n].arms == call.arms for n in inner):
            yield Match(call.span, "the cache of GPU memory is emptied in every step")


RULES = (
    Rule(
        code="SCR241",
        slug="eval-never-called",
        title="The model is in evaluation mode while it is evaluated",
        severity="warn",
        find=never_evaluates,
        why="Dropout and batch statistics stay on: the validation metric is of a model that nobody "
        "will use, and batch norm learns from the validation data.",
        fires=(
            "a model with dropout or batch norm runs under no_grad, also behind the step of a full "
            "batch, and no eval() in the file",
            "train() is called under no_grad, and the model evaluated",
        ),
        fix="Call model.eval() before the evaluation, and model.train() after it.",
        sources=("torch-train-mode",),
    ),
    Rule(
        code="SCR242",
        slug="evaluation-keeps-graphs",
        title="Evaluation runs without a graph",
        severity="warn",
        find=keeps_graphs,
        why="eval() does not stop the recording of graphs. Outputs that are collected keep every "
        "activation of every batch in memory.",
        fires=("after eval() and without no_grad, outputs or losses are added to a list or a sum",),
        fix="Wrap the evaluation in torch.inference_mode(), or torch.no_grad().",
        needs=("eval",),
        sources=("torch-faq-memory", "torch-no-grad"),
    ),
    Rule(
        code="SCR243",
        slug="context-not-called",
        title="no_grad is called where it is entered",
        severity="fail",
        find=context_not_entered,
        why="`with torch.no_grad:` has no parentheses and raises a TypeError: mostly after the "
        "first epoch, when the evaluation begins.",
        fires=("with torch.no_grad, inference_mode or enable_grad without parentheses",),
        fix="Write with torch.no_grad():",
        sources=("torch-no-grad",),
        words=(r"with\s+torch\.(?:no_grad|inference_mode|enable_grad)\s*:",),
    ),
    Rule(
        code="SCR244",
        slug="cache-emptied-each-step",
        title="The memory cache is kept between steps",
        severity="note",
        find=cache_emptied,
        training=True,
        why="empty_cache() returns unused blocks to the driver and synchronizes; the next step "
        "allocates them again. It gives this process no memory that it did not have.",
        fires=("torch.cuda.empty_cache() in every iteration of the training loop",),
        fix="Remove the call.",
        needs=("empty_cache",),
        sources=("torch-cuda-memory",),
    ),
)
