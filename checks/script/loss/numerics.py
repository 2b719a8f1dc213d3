"""Rules on arithmetic that makes NaN."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value
from doctor.script.fixes import makers
from doctor.script.fixes.makers import Fix

SOFTMAX = {"softmax", "Softmax", "gumbel_softmax"}
SIGMOID = {"sigmoid", "Sigmoid"}
THROUGH = {
    "gather", "squeeze", "unsqueeze", "view", "reshape", "transpose", "permute", "contiguous", "to",
    "float", "index_select", "flatten", "t", "cpu", "cuda", "mean", "detach", "max", "chunk",
    "split", "expand", "repeat", "select", "sum", "clone", "type",
}  # fmt: skip
DAMPED = {"clamp", "clamp_min", "clip", "max", "maximum", "clamp_"}
LOGS = {"log", "log2", "log10"}
FP16_TINY = 2.98e-8
"""Half of the smallest positive fp16 number, 2^-24: what is below rounds to zero."""


def _log_argument(reading: Training, call: Call) -> Value | None:
    """What a call of torch's log takes, None for another call."""
    if call.method not in LOGS:
        return None
    if call.name.startswith("torch.") and call.receiver_call < 0:
        return evaluate.argument(reading, call, "input", 0)
    if call.args or call.keywords:
        return None
    if call.receiver_call >= 0:
        return Value("call", call=call.receiver_call)
    return Value("name", name=call.receiver) if call.receiver else None


def _reaches(
    reading: Training, value: Value, sources: set[str], scope: int, position: int, depth: int = 6
) -> bool:
    """Whether a value is a result of one of these functions, through views and variables."""
    if not depth:
        return False
    if value.kind == "name":
        call = reading.calls[position] if position < len(reading.calls) else None
        arms = call.arms if call is not None and call.scope == scope else ()
        results = [
            each
            for each in evaluate.definitions(reading, value.name, scope, position, arms)
            if each.scope == scope
        ]
        return (
            bool(results)
            and all(each.value.kind != "name" or each.value.name != value.name for each in results)
            and any(
                _reaches(reading, each.value, sources, scope, each.position - 1, depth - 1)
                for each in results
            )
            and not any(_damped(reading, each.value) for each in results)
        )
    if value.kind == "item" and value.items:
        return _reaches(reading, value.items[0], sources, scope, position, depth - 1)
    if value.kind != "call":
        return False
    call = reading.calls[value.call]
    if _is_source(reading, call, sources):
        return True
    if call.method not in THROUGH:
        return False
    return _through(reading, call, value.call, sources, scope, depth)


def _through(
    reading: Training, call: Call, number: int, sources: set[str], scope: int, depth: int
) -> bool:
    if call.receiver_call >= 0:
        inner = Value("call", call=call.receiver_call)
    elif call.name.startswith("torch.") and call.args:
        inner = call.args[0]
    elif call.receiver:
        inner = Value("name", name=call.receiver)
    else:
        return False
    return _reaches(reading, inner, sources, scope, number - 1, depth - 1)


def _damped(reading: Training, value: Value) -> bool:
    return value.kind == "call" and reading.calls[value.call].method in DAMPED


def _is_source(reading: Training, call: Call, sources: set[str]) -> bool:
    if call.name.startswith(("tf.", "tensorflow.", "jax.", "numpy.", "scipy.")):
        return False
    if call.method in sources and call.method[:1].islower():
        return call.name.startswith("torch.") or "." in call.name or call.receiver_call >= 0
    if call.receiver_call >= 0 and call.name.endswith("()"):
        return reading.calls[call.receiver_call].method in sources
    if call.receiver or "." not in call.name:
        for each in reading.assigned_to(call.name, call.scope):
            made = each.value
            if made.kind == "call" and reading.calls[made.call].method in sources:
                name = reading.calls[made.call].name
                return name.startswith("torch.") and reading.calls[made.call].method[:1].isupper()
    return False


def _logs_of(reading: Training, sources: set[str]) -> Iterator[tuple[Call, int]]:
    if not reading.mentions(*(source.casefold() for source in sources)):
        return
    for number, call in reading.numbered(reading.methods(*LOGS)):
        value = _log_argument(reading, call)
        if value is None or reading.is_evaluation(call):
            continue
        if _reaches(reading, value, sources, call.scope, number):
            yield call, number


def log_of_softmax(reading: Training) -> Iterator[Match]:
    for call, _ in _logs_of(reading, SOFTMAX - {"gumbel_softmax"}):
        yield Match(call.span, "log of a softmax: -inf where a probability rounds to 0")


def log_of_sigmoid(reading: Training) -> Iterator[Match]:
    for call, _ in _logs_of(reading, SIGMOID):
        yield Match(call.span, "log of a sigmoid: -inf where it rounds to 0")


def epsilon_vanishes(reading: Training) -> Iterator[Match]:
    """Optimizers over fp16 weights with an epsilon that is 0 in fp16."""
    for trained in reading.trained:
        if trained.trainer:
            continue
        halves = [
            n
            for n in reading.on_object(trained.lineage, "half")
            if not reading.calls[n].args and reading.compatible(n, trained.sink)
        ]
        call = reading.calls[trained.sink]
        if not halves or reading.has_master_weights or not call.method.startswith("Adam"):
            continue
        value = evaluate.argument(reading, call, "eps")
        small = 1e-8 if value is None else value.literal
        if isinstance(small, float) and 0 < small <= FP16_TINY:
            yield Match(call.span, f"eps={small:g} is 0 in the fp16 of these weights")


RULES = (
    Rule(
        code="SCR141",
        slug="log-of-softmax",
        title="Log-probabilities come from log_softmax",
        severity="warn",
        find=log_of_softmax,
        why="softmax rounds small probabilities to 0 and log(0) is -inf; its gradient is NaN. "
        "log_softmax computes the same in one stable step.",
        fires=("log(softmax(x)), also through a variable, an index, a view or gather",),
        fix="Use torch.nn.functional.log_softmax(x, dim).",
        needs=("log", "log2", "log10"),
        sources=("ps-P8",),
        fixes=Fix(makers.log_softmax),
    ),
    Rule(
        code="SCR142",
        slug="log-of-sigmoid",
        title="The log of a sigmoid comes from logsigmoid",
        severity="warn",
        find=log_of_sigmoid,
        why="sigmoid rounds to 0 for large negative inputs and log(0) is -inf.",
        fires=("log(sigmoid(x)), also through a variable, an index or a view",),
        fix="Use torch.nn.functional.logsigmoid, or BCEWithLogitsLoss for the whole loss.",
        needs=("log", "log2", "log10"),
        sources=("ps-P8",),
        fixes=Fix(makers.log_sigmoid),
    ),
    Rule(
        code="SCR143",
        slug="epsilon-vanishes",
        title="Adam's epsilon is above zero in the dtype of the weights",
        severity="note",
        find=epsilon_vanishes,
        training=True,
        why="Adam over fp16 weights keeps its state in fp16, where 1e-8 is 0: a division by zero.",
        fires=("Adam with eps below 3e-8 over weights cast by half()",),
        fix="Keep the weights in fp32, or set eps=1e-4.",
        needs=("half",),
        sources=("ps-P8",),
    ),
)
