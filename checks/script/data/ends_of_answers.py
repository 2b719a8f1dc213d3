"""Rules on what labels leave out: the end of an answer, or the whole answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.data.ignored_places import leaves_places_out
from doctor.checks.script.naming import words
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Comparison, Value

LABELS = {"labels", "label", "targets", "target", "lm", "y"}
MARKERS = re.compile(
    r"###|<\||\[/?INST\]|<start_of_turn>|(?:^|\s)(?:Response|Answer|Assistant)\s*:"
)
TEMPLATES = ("DataCollatorForCompletionOnlyLM", "train_on_responses_only")


def end_masked(reading: Training) -> Iterator[Match]:
    """labels[labels == pad_token_id] = -100, where the padding token is the end token."""
    same = [
        each for each in reading.assignments
        if re.search(r"\.pad_token(?:_id)?$", each.target)
        and re.search(r"\.eos_token(?:_id)?$", each.value.name)
    ]  # fmt: skip
    if not same or reading.methods("add_special_tokens") or reading.mentions("padding_free"):
        return
    if not (reading.mentions("eos_token") and _ends_are_written(reading)):
        return
    for each in reading.comparisons:
        sides = (each.left, each.right)
        held = [*sides, *(v for side in sides for v in _held(reading, side, each))]
        pads = any(re.search(r"(?:pad|eos)_token_id$", side.name) for side in held)
        labels = any(set(words(n)) & LABELS for side in held for n in (side.name, *side.names[:1]))
        if each.operator == "==" and pads and labels and leaves_places_out(reading):
            yield Match(
                each.span,
                "padding is the end token: the end of an answer is left out of the labels, too",
            )


def _held(reading: Training, side: Value, at: Comparison) -> list[Value]:
    """What a name of a comparison may be: labels[:, 1:] of shifted, tok.pad_token_id of pad_id."""
    if side.kind != "name":
        return []
    found = evaluate.options_at(reading, side, at.scope, at.position - 1, ())
    below = [objects.operand(c) for c in reading.calls_of(found) if c.method in SAME]
    return [*found, *(v for v in below if v is not None)]


SAME = ("contiguous", "clone", "view", "reshape", "flatten")


def _ends_are_written(reading: Training) -> bool:
    """Something else than the padding reads eos_token: texts end with it."""
    return any(
        n.endswith((".eos_token", ".eos_token_id"))
        for value, _, _ in reading.expressions
        if value.kind != "name" or not value.name.endswith((".eos_token", ".eos_token_id"))
        for n in value.names
    ) or any("apply_chat_template" in call.method for call in reading.calls)


def marker_missing(reading: Training) -> Iterator[Match]:
    """The text that labels begin behind is none that prompts have."""
    for call in reading.calls:
        value = call.keywords.get("response_template") or call.keywords.get("response_part")
        encodes = call.method in ("encode", "tokenize") or _is_tokenizer(call)
        if value is None and (call.method in TEMPLATES or encodes):
            value = call.first
        marker = _constant(reading, value) if value is not None else ""
        if not marker or not MARKERS.search(marker) or len(marker.strip()) < 5:
            continue
        if (other := _family(reading)) and other not in marker:
            message = f"{marker.strip()!r} is not of the chat template, which writes {other}"
            yield Match(call.span, f"{message}: all labels are -100")
            continue
        if reading.methods("apply_chat_template") and not marker.startswith("###"):
            continue
        others = [text for text in reading.cached(_texts) if text != marker]
        shown = [text for text in others if MARKERS.search(text)]
        written = any(marker.strip() in text for text in others)
        collated = call.method in TEMPLATES or value is call.keywords.get("response_template")
        if not collated and reading.methods("add_special_tokens", "add_tokens"):
            continue  # a token of its own that begins or ends a turn
        if shown and not written and (collated or leaves_places_out(reading)):
            yield Match(
                call.span, f"{marker.strip()!r} is in none of the texts: all labels are -100"
            )


FAMILIES = (
    (r"(?i)chatml|qwen-?(?:2\.?5|3)(?:$|-instruct)", "<|im_start|>"),
    (r"(?i)llama-?3(?:\.[1-3])?", "<|start_header_id|>"),
    (r"(?i)gemma-?[23]?", "<start_of_turn>"),
)
"""Names of unsloth's chat templates, and how their turns begin."""


def _family(reading: Training) -> str:
    """How turns begin in the one template that get_chat_template() sets."""
    made = reading.named("get_chat_template")
    names = [_constant(reading, v) for c in made if (v := c.given("chat_template", 1)) is not None]
    found = [turn for pattern, turn in FAMILIES for n in names if re.fullmatch(pattern, n)]
    return found[0] if len(made) == len(found) == 1 else ""


def _is_tokenizer(call: Call) -> bool:
    """tok(text), self.tokenizer(text): convert_tokens_to_ids looks up one token, and no marker."""
    return "tok" in call.method.casefold() and "convert" not in call.method


def _constant(reading: Training, value: Value) -> str:
    if isinstance(value.literal, str):
        return value.literal
    found = reading.assigned.get((0, value.name), ()) if value.kind == "name" else ()
    literals = [a.value.literal for a in found]
    return str(literals[0]) if len(literals) == 1 and isinstance(literals[0], str) else ""


def _texts(reading: Training) -> list[str]:
    """All texts of the file, also parts of f-strings."""
    values = [value for value, _, _ in reading.expressions]
    return [part.literal for part in flatten(values) if isinstance(part.literal, str)]


RULES = (
    Rule(
        code="SCR355",
        slug="end-of-answer-masked",
        title="The end of an answer is among the labels",
        severity="warn",
        find=end_masked,
        why="Where padding and end are one token, -100 for all padding is -100 for the end, too: "
        "the model never learns to stop.",
        fires=("labels[labels == pad_token_id] = -100 beside pad_token = eos_token",),
        fix="Mask by attention_mask or by length; or add a padding token of its own.",
        sources=("llm-course-33",),
        needs=("eos_token", "eos_token_id"),
    ),
    Rule(
        code="SCR356",
        slug="response-marker-missing",
        title="The text that labels begin behind is in the prompts",
        severity="fail",
        find=marker_missing,
        why="A collator that looks for a marker masks the whole text where it is missing: nothing "
        "is learned, and the loss is 0 or NaN.",
        fires=(
            "response_template='### Response:', and prompts with <|im_start|>assistant",
            "response_part of Llama 3 beside get_chat_template(tokenizer, 'qwen-2.5')",
        ),
        fix="Take the marker from the template that renders the prompts.",
        sources=("unsloth-1128",),
        needs=("response_template", "response_part", "encode", "tokenizer", "tok",
               *TEMPLATES),
        limits="that a template of another file contains the marker.",
    ),
)  # fmt: skip
