"""Rules on what is done with the output of a model: along which axis, and as what it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctor.checks.script import evaluate, objects
from doctor.checks.script.axes import axes_of
from doctor.checks.script.axis_changes import ONE
from doctor.checks.script.kinds.clashes import clashes
from doctor.checks.script.loss.axis_uses import along_other_axis, pooled_samples
from doctor.checks.script.loss.batch_axes import constant_means, over_batch
from doctor.checks.script.loss.losses import RAW, loss_calls
from doctor.checks.script.loss.reductions import implicit_axis
from doctor.checks.script.outcomes import VIEWS, outcomes
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

SHARES = {"softmax", "log_softmax"}
PICKS = {"argmax", "max"}
MODELS = {"model", "net", "network", "classifier", "clf"}
"""What functions call a model that they get."""
POSITIVE = {"Categorical", "OneHotCategorical", "Bernoulli", "Multinomial"}
"""Distributions whose first argument is probabilities."""


def _dim(reading: Training, call: Call, position: int) -> object:
    value = call.keywords.get("axis") or evaluate.argument(reading, call, "dim", position)
    return value.literal if value is not None and value.kind == "literal" else None


def batch_axis(reading: Training) -> Iterator[Match]:
    read = [*along_other_axis(reading), *pooled_samples(reading)]
    yield from read
    places = {match.span for match in read}
    yield from (match for match in _by_origin(reading) if match.span not in places)


def _by_origin(reading: Training) -> Iterator[Match]:
    yield from implicit_axis(reading)
    yield from over_batch(reading)
    yield from constant_means(reading)
    if not reading.mentions("loader", "trainer"):
        return
    for number, call in reading.numbered(
        reading.methods(*SHARES, *PICKS, "normalize", "Softmax", "LogSoftmax")
    ):
        value = objects.operand(call)
        position = int(call.name.startswith(("torch.", "numpy.")))
        if call.method[:1].isupper():
            if _dim(reading, call, 0) == 0 and _ends_network(reading, number):
                yield Match(call.span, f"{call.method}(dim=0) runs over the samples of the batch")
            continue
        dim = _dim(reading, call, position)
        if value is None or dim is None or isinstance(dim, bool):
            continue
        if dim == 0 and _is_batch(reading, call, value, number):
            message = f"{call.method} along axis 0 runs over the batch"
            yield Match(call.span, message, fix=_other_axis(reading, call, value))
        elif (
            call.method in SHARES and dim in (1, 2, 0, -2, -3) and _is_scores(reading, value, call)
        ):
            yield Match(call.span, f"attention is normalized along axis {dim}, not over the keys")


def _other_axis(reading: Training, call: Call, value: Value) -> str:
    """The remedy for an axis that is the batch: a number only where all the sizes are known."""
    known = axes_of(reading, value, call)
    rest = [n for n, axis in enumerate(known.each) if n and axis.kind != ONE] if known else []
    if len(rest) == 1:
        return f"Use dim={rest[0]}."
    if call.method not in SHARES:
        return ""
    return "Name the axis of the classes, keys or instances: neither the batch, nor one of size 1."


def _ends_network(reading: Training, number: int) -> bool:
    """The last part of a Sequential with a Linear before it."""
    for n in reading.methods("Sequential"):
        args = reading.calls[n].args
        if len(args) > 1 and args[-1].call == number and args[-2].kind == "call":
            return reading.calls[args[-2].call].name == "torch.nn.Linear"
    return False


def _is_batch(reading: Training, call: Call, value: Value, number: int) -> bool:
    """The result of a layer or of what trains, or the logits that compute_metrics gets."""
    if call.method == "normalize":
        made = reading.call_of(value)
        inside = reading.function(call.scope).name in ("forward", "training_step")
        return made is not None and made.name.startswith("self.") and inside
    if _is_one_sample(reading, value, call):
        return False
    if outcomes(reading, value, call.scope, number, call.arms) <= {"logits"}:
        return call.method in SHARES or bool(call.loops)
    if call.method in SHARES:
        return False
    if reading.function(call.scope).name == "compute_metrics":
        return value.name in ("logits", "predictions", "preds") and call.method == "argmax"
    return bool(call.loops) and _is_trained(reading, value, call)


def _is_one_sample(reading: Training, value: Value, call: Call) -> bool:
    """The batch was taken off: squeeze(0), or one of the rows."""
    if value.kind == "name":
        return any(
            _is_one_sample(reading, each, call)
            for each in objects.last_definition(reading, value.name, call)
            if each.kind != "name"
        )
    if value.kind == "item":
        return True
    made = reading.call_of(value)
    while made is not None:
        if made.method == "squeeze":
            return True
        made = reading.before(made)
    return False


def _is_trained(reading: Training, value: Value, call: Call) -> bool:
    """What a call of what trains returned."""
    if value.kind == "name":
        values = objects.last_definition(reading, value.name, call)
        return (
            bool(values)
            and all(each.kind == "call" for each in values)
            and all(_is_trained(reading, each, call) for each in values)
        )
    if value.kind != "call":
        return False
    made = reading.calls[value.call]
    if made.method in SHARES:
        inner = objects.operand(made)
        return inner is not None and _is_trained(reading, inner, made)
    known = reading.key(made.name, made.scope) in reading.trained_names
    given = made.name in MODELS and evaluate.is_parameter(reading, made.scope, made.name)
    return (known or given) and "generate" not in made.method


def _is_scores(reading: Training, value: Value, call: Call, depth: int = 5) -> bool:
    """q @ k.transpose(-2, -1), where q was split into heads by view(B, T, heads, width)."""
    if not depth or value.kind not in ("name", "call", "other"):
        return False
    if value.kind == "name":
        values = objects.last_definition(reading, value.name, call)
        return len(values) == 1 and _is_scores(reading, values[0], call, depth - 1)
    if value.kind == "call":
        made = reading.calls[value.call]
        if made.name in ("torch.matmul", "torch.bmm") and len(made.args) == 2:
            return _is_transposed(reading, made.args[1]) and _has_heads(reading, made.args[0], made)
        if made.method in ("masked_fill", "masked_fill_", *VIEWS):
            inner = objects.operand(made)
            return inner is not None and _is_scores(reading, inner, made, depth - 1)
        return False
    if value.name == "MatMult" and len(value.items) == 2:
        return _is_transposed(reading, value.items[1]) and _has_heads(reading, value.items[0], call)
    if value.name in ("Mult", "Div", "Add"):
        return any(_is_scores(reading, item, call, depth - 1) for item in value.items)
    return False


def _is_transposed(reading: Training, value: Value) -> bool:
    made = reading.call_of(value)
    axes = {v.literal for v in made.args} if made is not None else set()
    return made is not None and made.method == "transpose" and axes in ({-2, -1}, {2, 3})


def _has_heads(reading: Training, value: Value, call: Call) -> bool:
    """The query was made by view() with four numbers."""
    values = objects.last_definition(reading, value.name, call) if value.kind == "name" else [value]
    for each in values:
        while each.kind == "call":
            made = reading.calls[each.call]
            if made.method in ("view", "reshape") and len(made.args) == 4:
                return True
            if made.receiver_call < 0:
                break
            each = Value("call", call=made.receiver_call)
    return False


def read_as(reading: Training) -> Iterator[Match]:
    for call in reading.named("multinomial"):
        if call.name == "torch.multinomial" and _made_by(reading, call, call.args[:1], set(RAW)):
            yield Match(call.span, "multinomial() draws from the output of a layer: no softmax")
    for call in reading.named(*POSITIVE):
        if not call.name.startswith("torch.distributions."):
            continue
        given = [call.keywords["probs"]] if "probs" in call.keywords else list(call.args[:1])
        if _made_by(reading, call, given, set(RAW)):
            yield Match(call.span, f"{call.method} takes raw outputs as probabilities")
    yield from reading.cached(clashes).get("SCR306", ())
    yield from _thresholds(reading)


def _made_by(reading: Training, call: Call, values: Sequence[Value], wanted: set[str]) -> bool:
    """Every path to the value ends in one of these operations."""
    number = reading.number(call)
    return any(outcomes(reading, v, call.scope, number, call.arms) <= wanted for v in values)


def _thresholds(reading: Training) -> Iterator[Match]:
    """logits > 0.5 and round(logits), where the loss is one of logits."""
    kinds = {kind for _, kind in loss_calls(reading)}
    if "bce_logits" not in kinds or kinds & {"mse", "bce"}:
        return
    for each in reading.comparisons:
        if each.operator in (">", ">=") and each.right.literal == 0.5:
            found = outcomes(reading, each.left, each.scope, each.position)
            if found <= set(RAW):
                yield Match(
                    each.span, "logits are compared with 0.5: without a sigmoid it is 0", "warn"
                )
    for number, call in reading.numbered(reading.methods("round")):
        if call.keywords or len(call.values) > (not call.receiver or call.name == "torch.round"):
            continue  # to so many decimals, for a page
        source = objects.operand(call)
        found = outcomes(reading, source, call.scope, number, call.arms) if source else set()
        if found and found <= set(RAW):
            yield Match(
                call.span, "logits are rounded: without a sigmoid 0.5 is no threshold", "warn"
            )


def bce_in_autocast(reading: Training) -> Iterator[Match]:
    """binary_cross_entropy of probabilities raises where the GPU computes in half precision."""
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        off = any(
            reading.calls[v.call].keywords.get("enabled") is not None
            for v in reading.contexts(call)
            if v.kind == "call"
        )
        inside = any(
            reading.calls[v.call].method == "autocast"
            and "cpu" not in [a.literal for a in _devices(reading.calls[v.call])]
            for v in reading.contexts(call)
            if v.kind == "call"
        )
        if kind == "bce" and inside and not off:
            yield Match(call.span, "binary_cross_entropy raises within autocast")


def _devices(call: Call) -> list[Value]:
    named = call.keywords.get("device_type")
    return [*call.args, *([named] if named is not None else [])]


RULES = (
    Rule(
        code="SCR305",
        slug="batch-axis",
        title="Softmax, argmax and pooling do not run over samples",
        severity="warn",
        find=batch_axis,
        why="Axis 0 holds the samples of a batch: a softmax over it mixes them, and argmax returns "
        "the number of a sample. Attention is normalized over its last axis, the keys.",
        fires=(
            "softmax, log_softmax, argmax or max along axis 0 of a model's output, in a file with "
            "loaders",
            "F.softmax(x), or nn.Softmax(), without dim",
            "softmax of attention scores along another axis than the last",
            "normalize(dim=0) of the output of an encoder",
            "softmax along another axis than that of the classes of the same cross_entropy",
            "states.mean(dim=0) of (batch, time, width) before a linear layer",
            "q(states).gather(0, actions.unsqueeze(1))",
        ),
        errors=("softmax(x, dim=-1).mean(dim=-1), which is the same number for all x",),
        fix="Use dim=-1, the axis of classes or keys.",
        sources=("torch-losses",),
        needs=(
            "softmax",
            "log_softmax",
            "argmax",
            "max",
            "normalize",
            "Softmax",
            "LogSoftmax",
            "gather",
            "mean",
        ),
    ),
    Rule(
        code="SCR306",
        slug="output-read-as-probability",
        title="What is read as probabilities is probabilities",
        severity="fail",
        find=read_as,
        why="The output of a layer may be negative and does not sum to 1: as probabilities it "
        "raises or gives another distribution. Probabilities as logits get a second softmax.",
        fires=(
            "Categorical(x), Bernoulli(x) or multinomial(x) of the output of a layer",
            "Categorical(logits=x) of the result of a softmax",
            "x > 0.5 or round(x) of logits that BCEWithLogitsLoss trains (a warning)",
        ),
        fix="Pass logits=x for raw outputs; apply sigmoid before 0.5, or compare with 0.",
        sources=("torch-losses",),
        needs=(*POSITIVE, "multinomial", "BCEWithLogitsLoss", "binary_cross_entropy_with_logits"),
    ),
    Rule(
        code="SCR307",
        slug="bce-in-autocast",
        title="Losses under autocast are safe in half precision",
        severity="fail",
        find=bce_in_autocast,
        why="Under autocast torch refuses binary_cross_entropy and BCELoss: 'are unsafe to "
        "autocast'. The loss of logits computes the same in fp32.",
        fires=("BCELoss or binary_cross_entropy within an autocast block of the GPU",),
        fix="Return logits, and use BCEWithLogitsLoss.",
        sources=("torch-losses",),
        needs=("BCELoss", "binary_cross_entropy"),
    ),
)
