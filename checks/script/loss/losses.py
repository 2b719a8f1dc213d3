"""Rules on what a loss function receives."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.decided import written_decisions
from doctor.checks.script.loss.rebuilt import loss_rebuilt
from doctor.checks.script.outcomes import UNKNOWN, VIEWS, outcomes
from doctor.checks.script.rule import Find, Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value, last_part

LOSSES = {
    "CrossEntropyLoss": "cross_entropy", "cross_entropy": "cross_entropy",
    "BCEWithLogitsLoss": "bce_logits", "binary_cross_entropy_with_logits": "bce_logits",
    "BCELoss": "bce", "binary_cross_entropy": "bce", "NLLLoss": "nll", "nll_loss": "nll",
    "KLDivLoss": "kl", "kl_div": "kl", "MSELoss": "mse", "mse_loss": "mse", "L1Loss": "mse",
    "CTCLoss": "ctc", "ctc_loss": "ctc",
    "l1_loss": "mse", "SmoothL1Loss": "mse", "smooth_l1_loss": "mse", "HuberLoss": "mse",
}  # fmt: skip
WORDS = (
    r"BCE\w*Loss\b", "binary_cross_entropy", r"NLLLoss\b", r"nll_loss\b", "KLDivLoss", "kl_div",
    "CTCLoss", "ctc_loss",
)  # fmt: skip
"""Of the losses that stand in files of their own. cross_entropy would be in most models."""
ORDERED = ("cross_entropy", "bce_logits", "bce", "nll", "kl")
"""Losses in which input and target are not the same."""


def loss_calls(reading: Training) -> list[tuple[int, str]]:
    """Calls of torch's loss functions and modules, with their kind."""
    return reading.cached(_loss_calls)


def _loss_calls(reading: Training) -> list[tuple[int, str]]:
    if LOSSES.keys().isdisjoint(reading.script.identifiers):
        return []
    made = {
        key
        for key, held in reading.assigned.items()
        if any(reading.calls[n].method in LOSSES for each in held
                for n in (each.value.call, *each.value.calls) if n >= 0)
    }  # fmt: skip
    made |= reading.cached(_aliases).keys()
    results = []
    for number, call in enumerate(reading.calls):
        if len(call.args) + len(call.keywords) < 2:
            continue
        if (kind := _kind(reading, call, made)) is not None:
            results.append((number, kind))
    return results


def _kind(reading: Training, call: Call, made: set[tuple[object, str]]) -> str | None:
    if call.name.startswith("torch."):
        functional = call.name.startswith("torch.nn.functional.")
        module = call.name.endswith("Loss()")
        if not module:
            return LOSSES.get(call.method) if functional else None
    elif not call.name or not _may_hold(reading, call, made):
        return None
    if (alias := reading.cached(_aliases).get(reading.key(call.name, call.scope))) is not None:
        return alias
    kinds = {
        LOSSES.get(each.method) if each is not None and each.name.startswith("torch.nn.") else None
        for each in objects.callee(reading, call)
    }
    return kinds.pop() if len(kinds) == 1 else None


def _aliases(reading: Training) -> dict[tuple[object, str], str]:
    """criterion = F.cross_entropy, and nothing else is assigned to it."""
    return {
        key: LOSSES[last_part(held[0].value.name)]
        for key, held in reading.assigned.items()
        if len(held) == 1
        and held[0].value.kind == "name"
        and held[0].value.name.startswith("torch.nn.functional.")
        and last_part(held[0].value.name) in LOSSES
    }


def _may_hold(reading: Training, call: Call, made: set[tuple[object, str]]) -> bool:
    """A name that a loss is assigned to, or a parameter."""
    key = reading.key(call.name, call.scope)
    owner, name = key
    return key in made or (
        isinstance(owner, int) and owner > 0 and evaluate.is_parameter(reading, owner, name)
    )


def _input(reading: Training, call: Call) -> Value | None:
    return evaluate.argument(reading, call, "input", 0)


def wrong_input(kind: str, bad: dict[str, str]) -> Find:
    """A rule that the input of a loss was made by another operation than the loss is for."""

    def find(reading: Training) -> Iterator[Match]:
        for number, found in loss_calls(reading):
            call = reading.calls[number]
            value = _input(reading, call)
            if found != kind or value is None:
                continue
            results = outcomes(reading, value, call.scope, number, call.arms)
            wrong = sorted(results & bad.keys())
            if not wrong:
                continue
            message = f"{call.method or kind} receives {bad[wrong[0]]}"
            if results <= bad.keys():
                yield Match(call.span, message, "warn" if reading.is_evaluation(call) else "fail")
            elif UNKNOWN not in results or len(results) == 2:
                reason = "another path of the model returns something else"
                yield Match(call.span, message, undecided=reason)

    return find


def target_of_logarithms(reading: Training) -> Iterator[Match]:
    """kl_div(input, log_softmax(t)) without log_target=True."""
    for number, found in loss_calls(reading):
        call = reading.calls[number]
        value = call.given("target", 1) if found == "kl" else None
        made = [call, *objects.known_callees(reading, call)]
        if value is None or any("log_target" in each.keywords for each in made):
            continue
        if outcomes(reading, value, call.scope, number, call.arms) == {"log_softmax"}:
            message = "the target is a logarithm, and log_target=True is missing"
            yield Match(call.span, message, "fail",
                        fix="Pass softmax(t) as target, or log_target=True.")  # fmt: skip


def loss_of_decision(reading: Training) -> Iterator[Match]:
    for number, _ in loss_calls(reading):
        call = reading.calls[number]
        value = _input(reading, call)
        if value is None or not reaches_backward(reading, number):
            continue
        results = outcomes(reading, value, call.scope, number, call.arms)
        if results == {"argmax"}:
            yield Match(call.span, "the loss of class indices has no gradient")
    yield from written_decisions(reading)


def reaches_backward(reading: Training, number: int) -> bool:
    """The result of a call is what backward() is called on."""
    call = reading.calls[number]
    return any(
        reading.calls[n].receiver_call == number
        or any(number in value.calls[:1] for value in reading.calls[n].args)
        or (
            reading.loss_name(reading.calls[n]) in call.targets
            and reading.calls[n].scope == call.scope
        )
        or any(
            value.kind == "call" and value.call == number
            for value in objects.last_definition(
                reading, reading.loss_name(reading.calls[n]), reading.calls[n]
            )
        )
        for n in reading.backwards
    )


def arguments_swapped(reading: Training) -> Iterator[Match]:
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        if kind not in ORDERED or len(call.args) < 2:
            continue
        first, second = call.args[:2]
        if _is_data(reading, first, call) and _is_output(reading, second, call):
            yield Match(call.span, "the target is passed as input, and the output as target")


def _is_data(reading: Training, value: Value, call: Call) -> bool:
    """A name that a loop over data binds, also moved or cast."""
    if value.kind == "call":
        inner = reading.calls[value.call]
        if inner.method not in VIEWS or not inner.receiver:
            return False
        value = Value("name", name=inner.receiver)
    if value.kind != "name":
        return False
    targets = {name for loop in call.loops for name in reading.loops[loop].targets}
    bound = value.name in targets
    unpacked = objects.last_definition(reading, value.name, call) if not bound else []
    if unpacked and all(_is_taken(reading, each, targets) for each in unpacked):
        return True
    return bound and all(
        each.kind == "call"
        and reading.calls[each.call].method in VIEWS
        and reading.calls[each.call].receiver == value.name
        for each in objects.last_definition(reading, value.name, call)
    )


def _is_taken(reading: Training, value: Value, targets: set[str]) -> bool:
    """An element of what the loop binds, at most moved: x, y = (t.cuda() for t in batch)."""
    moved = all(call.method in VIEWS for call in reading.inside(value))
    named = {name for name in value.names if name.isidentifier()}
    return value.kind in ("item", "other", "call") and moved and bool(named & targets)


def _is_output(reading: Training, value: Value, call: Call) -> bool:
    """What a module that trains returned."""
    if value.kind == "name":
        values = objects.last_definition(reading, value.name, call)
        return bool(values) and all(each.kind == "call" and _is_output(reading, each, call)
                                    for each in values)  # fmt: skip
    if value.kind != "call":
        return False
    inner = reading.calls[value.call]
    if inner.method in VIEWS and inner.receiver:
        return inner.receiver not in (value.name,) and _is_output(
            reading, Value("name", name=inner.receiver), inner
        )
    return reading.key(inner.name, inner.scope) in reading.trained_names


def _table(
    code: str, slug: str, title: str, kind: str, bad: dict[str, str], why: str, fires: str, fix: str
) -> Rule:
    return Rule(
        code=code, slug=slug, title=title, severity="fail", find=wrong_input(kind, bad), why=why,
        fires=(fires,), fix=fix, sources=("torch-losses",),
        limits="that layers of other files end in what the loss expects.",
    )  # fmt: skip


RAW = ("logits", "logit")
NOT_LOGARITHMS = {
    **dict.fromkeys(RAW, "the output of a layer without log_softmax"),
    "softmax": "probabilities instead of their logarithm",
}
SOFTMAXED = {"softmax": "the result of a softmax", "sigmoid": "the result of a sigmoid"}

RULES = (
    _table("SCR211", "softmax-before-cross-entropy", "Cross-entropy receives logits",
        "cross_entropy", SOFTMAXED,
        "cross_entropy applies log_softmax itself. Of probabilities, the loss of 10 classes cannot "
        "fall below 1.46, and gradients are small where the model is most wrong.",
        "CrossEntropyLoss or cross_entropy on the result of a softmax or a sigmoid",
        "Pass the logits; apply softmax where probabilities are needed, outside of the loss."),
    _table("SCR212", "sigmoid-before-logits-loss", "BCEWithLogitsLoss receives logits",
        "bce_logits", SOFTMAXED,
        "BCEWithLogitsLoss applies the sigmoid itself. Of a sigmoid's result every probability is "
        "between 0.5 and 0.73, whatever the model learns.",
        "BCEWithLogitsLoss on the result of a sigmoid or a softmax",
        "Remove the sigmoid before the loss."),
    _table("SCR213", "bce-on-logits", "BCELoss receives probabilities", "bce",
        dict.fromkeys(RAW, "the output of a layer without a sigmoid"),
        "BCELoss takes the logarithm of its input. Outside of 0 to 1 it raises on the CPU and "
        "stops with a device-side assert on a GPU.",
        "BCELoss on the output of a linear or convolutional layer", "Use BCEWithLogitsLoss."),
    _table("SCR214", "nll-on-logits", "NLLLoss receives log-probabilities", "nll", NOT_LOGARITHMS,
        "NLLLoss only picks the input at the target and negates it. Without log_softmax the loss "
        "falls below zero and the outputs grow without bound.",
        "NLLLoss on the output of a layer or of a softmax",
        "Apply log_softmax before NLLLoss, or use CrossEntropyLoss on the logits."),
    _table("SCR215", "kl-div-input", "kl_div receives log-probabilities", "kl", NOT_LOGARITHMS,
        "kl_div expects its input in log space. Of probabilities it computes another number, whose "
        "minimum is not where the distributions agree.",
        "KLDivLoss or kl_div on the result of a softmax, or of a layer",
        "Pass log_softmax of the logits as input."),
    _table("SCR310", "ctc-on-logits", "CTCLoss receives log-probabilities", "ctc", NOT_LOGARITHMS,
        "CTCLoss adds up log-probabilities over paths. Without log_softmax its input has no such "
        "meaning, and the loss becomes negative or does not fall.",
        "CTCLoss or ctc_loss on the output of a layer or of a softmax",
        "Apply log_softmax over the characters first."),
    _table("SCR285", "cross-entropy-of-one-class", "Cross-entropy receives two classes or more",
        "cross_entropy", {"logit": "one output: the softmax of one number is 1, and the loss 0"},
        "The softmax over one class is 1: the loss is 0 from the first step on, and nothing is "
        "learned.", "CrossEntropyLoss on the output of nn.Linear(..., 1)",
        "Use BCEWithLogitsLoss for one output, or two outputs."),
    Rule(
        code="SCR216",
        slug="loss-of-decision",
        title="The loss is computed from outputs, not from decisions",
        severity="fail",
        find=loss_of_decision,
        why="argmax has no gradient. backward() raises 'element 0 of tensors does not require "
        "grad'.",
        fires=(
            "the loss of argmax(...), or of the indices of max(...), and backward() on it",
            "a loss written out of F.one_hot(logits.argmax(1)), in a loop or in a module",
        ),
        fix="Pass the logits to the loss; use argmax for the accuracy only.",
        sources=("torch-losses",),
    ),
    Rule(
        code="SCR217",
        slug="loss-arguments-swapped",
        title="A loss receives the output first and the target second",
        severity="fail",
        find=arguments_swapped,
        why="Cross-entropies take (input, target). In the other order they raise, or compute the "
        "gradient of another loss.",
        fires=("a cross-entropy of (a name of the data loop, the model's output)",),
        fix="Call criterion(output, target).",
        sources=("torch-losses",),
    ),
    Rule(
        code="SCR218",
        slug="loss-rebuilt",
        title="backward() starts at the loss that the model made",
        severity="fail",
        find=loss_rebuilt,
        why="torch.tensor(loss, requires_grad=True) and detach().requires_grad_() silence the "
        "error "
        "of a missing graph and start a new one: backward() runs and no weight gets a gradient.",
        fires=(
            "backward() on a tensor that was made with requires_grad=True just before, also in the "
            "function or module of this file that returns the loss",
        ),
        fix="Compute the loss with tensor operations from the model's output to backward(): "
        "torch.stack(losses).mean().",
        sources=("torch-losses",),
    ),
)  # fmt: skip
