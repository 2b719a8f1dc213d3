"""Rules on text that a model generates."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.lineage import OF_THE_MODEL, WRAPPERS
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

PADS_RIGHT = (
    "gpt2", "distilgpt2", "openai-community/gpt2", "distilbert/distilgpt2", "facebook/opt-",
    "EleutherAI/",
)  # fmt: skip
"""Models whose tokenizers say no side: the default is right."""


def padded_on_the_right(reading: Training) -> Iterator[Match]:
    for call in reading.named("generate"):
        if not call.receiver or not is_decoder(reading, call):
            continue
        for value in (*call.args[:1], *call.unpacked, *call.keywords.values()):
            made = _tokenized(reading, value, call)
            if made is not None and _is_padded_batch(reading, made) and _pads_right(reading, made):
                message = f"{made.method} pads prompts on the right: the model goes on after pads"
                yield Match(call.span, message)
                break


def is_decoder(reading: Training, call: Call) -> bool:
    """Each object that the receiver may be is loaded as a causal model."""
    options = evaluate.receivers(reading, call)
    names = [name for each in options for name in _sources(reading, each)]
    return bool(names) and all(name.endswith("ForCausalLM.from_pretrained") for name in names)


def _sources(reading: Training, value: Value, depth: int = 3) -> list[str]:
    """What loads an object, before get_peft_model(), accelerator.prepare() and the like."""
    made = reading.call_of(value)
    if made is None or made.method not in WRAPPERS - OF_THE_MODEL or not made.args or not depth:
        return [_source(reading, value)]
    inner = evaluate.options(reading, made.args[0], made)
    return [name for each in inner for name in _sources(reading, each, depth - 1)]


def _source(reading: Training, value: Value) -> str:
    """What loads an object, before .to(device).eval()."""
    made = _first_call(reading, value)
    return made.name if made is not None else ""


def _first_call(reading: Training, value: Value) -> Call | None:
    """The call that a chain of methods starts at."""
    call = reading.call_of(value)
    while call is not None and (before := reading.before(call)) is not None:
        call = before
    return call


def _tokenized(reading: Training, value: Value, call: Call) -> Call | None:
    """The call that made the inputs: tokenizer(texts, ...).to(device)["input_ids"]."""
    value = Value("name", name=value.name.partition(".")[0]) if value.name else value
    for each in evaluate.options(reading, value, call):
        made = _first_call(reading, each)
        if made is not None and "padding" in made.keywords:
            return made
    return None


def _is_padded_batch(reading: Training, made: Call) -> bool:
    """padding=True, and a list, a comprehension or a part of one: padding does nothing to a single
    text."""
    if made.keywords["padding"].literal not in (True, "longest") or not made.args:
        return False
    if "padding_side" in made.keywords:
        return False
    texts = made.args[0]
    if any(item.kind == "slice" for item in texts.items[1:]) or texts.name == "ListComp":
        return True
    return any(
        each.name == "ListComp" or (each.kind == "list" and len(each.items) > 1)
        for each in evaluate.options(reading, made.args[0], made)
    )


def _pads_right(reading: Training, made: Call) -> bool:
    """The file sets the side to right and never otherwise, or the tokenizer's default is known."""
    sides = [
        each.value.literal for each in reading.assignments if each.target.endswith(".padding_side")
    ]
    loads = [
        reading.calls[each.call]
        for each in evaluate.options(reading, Value("name", name=made.name), made)
        if each.kind == "call" and reading.calls[each.call].method == "from_pretrained"
    ]
    for load in loads:
        if load.unpacked:
            return False
        if (side := load.keywords.get("padding_side")) is not None:
            sides.append(side.literal)
    if sides:
        return all(side == "right" for side in sides)
    names = [load.args[0].literal for load in loads if load.args]
    return bool(names) and all(str(name).startswith(PADS_RIGHT) for name in names)


RULES = (
    Rule(
        code="SCR304",
        slug="generation-padded-right",
        title="Prompts of a batch are padded on the left",
        severity="warn",
        find=padded_on_the_right,
        why="A decoder goes on after the last token. Shorter prompts that are padded on the right "
        "end with pads: their answers are worse, and so is the score.",
        fires=(
            "generate() of a causal model on a list of texts with padding=True, where the file "
            'sets padding_side to "right"',
            "the same without any padding_side, where the tokenizer's name is one of gpt2, opt or "
            "pythia",
        ),
        fix='Pass padding_side="left" to from_pretrained of the tokenizer.',
        sources=("transformers-26569",),
        needs=("generate",),
        words=(r"\.generate\(",),
    ),
)
