"""Rules on the padding of a batch: labels and masks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from doctor.checks.script import evaluate, objects
from doctor.checks.script.data.ignored_places import has_ignored_value
from doctor.checks.script.data.tokens import masked_by_text
from doctor.checks.script.data.unshifted_tokens import VIEWS
from doctor.checks.script.lineage import lineage_of
from doctor.checks.script.rendering import expanded, render
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Span, Value

MASKS = (
    "forlanguagemodeling", "completiononly", "masked_fill", "ignore_index", "ignored_labels",
)  # fmt: skip
"""Names of what leaves padding out of the labels."""


PADDING = re.compile("pad_token_id|mask")


def padding_in_labels(reading: Training) -> Iterator[Match]:
    if reading.mentions(*MASKS) or not any(_pads(c) or _fills(c) for c in reading.calls):
        return
    if _leaves_out(reading) or not all(map(partial(_puts_back, reading), reading.named("where"))):
        return
    for call in reading.calls if any(map(_pads, reading.calls)) else ():
        labels, ids = call.keywords.get("labels"), call.keywords.get("input_ids")
        named = labels is not None and labels.kind in ("name", "item") and labels.name
        if (
            labels is not None
            and labels == ids
            and named
            and not _is_one_row(reading, labels, call)
        ):
            yield Match(call.span, f"labels are {labels.name}: padding is learned")
    for span, labels, scope, position, base in _labels(reading):
        if _is_padded(reading, labels, scope, position, base):
            yield Match(span, "labels are input_ids that a tokenizer padded: padding is learned")


def _is_one_row(reading: Training, ids: Value, call: Call) -> bool:
    """torch.tensor(batch[0]["input_ids"]).unsqueeze(0), where nothing pads to a fixed length."""
    fixed = any(
        (v := each.keywords.get("padding")) is not None and v.literal == "max_length"
        for each in reading.calls
    )
    text = expanded(reading, ids, call)
    return not fixed and "[0]" in text and text.endswith(".unsqueeze(0)")


def _leaves_out(reading: Training) -> bool:
    """Something is compared with padding, or is -100 where nothing is decoded."""
    decoding = {c.scope for c in reading.named("batch_decode")}
    compared = [c for c in reading.comparisons if c.scope not in decoding]
    padding = any(PADDING.search(f"{c.left.name} {c.right.name}") for c in compared)
    return padding or (has_ignored_value(reading, decoding) and not _only_prompts(reading))


PREFIX = re.compile(r"\(\(\(-100\)\*(?P<n>\w+)\)\+[\w.\[\]']+\[(?P=n):\]\)")
"""[-100] * n + labels[n:]: the prompt is left out, and nothing behind the answer."""


def _only_prompts(reading: Training) -> bool:
    """Each -100 of the file stands for the tokens of a prompt, and texts have a fixed length."""
    fixed = [v for c in reading.calls if (v := c.keywords.get("padding")) is not None
             and v.literal == "max_length"]  # fmt: skip
    texts = [render(reading, value) for value, _, _ in reading.expressions]
    held = [text for text in texts if "-100" in text]
    return bool(fixed) and bool(held) and all(PREFIX.fullmatch(text) for text in held)


def _puts_back(reading: Training, call: Call) -> bool:
    """np.where(labels < 0, tokenizer.pad_token_id, labels), before texts are decoded."""
    decodes = call.scope in {c.scope for c in reading.named("batch_decode")}
    return decodes and not any(v.literal == -100 for v in call.args)


def _labels(reading: Training) -> Iterator[tuple[Span, Value, int, int, str]]:
    """What is entered as labels: its place and scope, and the dictionary that has it."""
    for each in reading.assignments:
        if each.target.endswith("[labels]"):
            base = each.target.removesuffix("[labels]")
            yield each.span, each.value, each.scope, each.position, base
    for scope, function in enumerate(reading.script.functions):
        for value, span in zip(function.returns, function.exit_spans, strict=False):
            if (labels := evaluate.entry(reading, value, "labels")) is not None:
                yield span, labels, scope, len(reading.calls), ""


def _pads(call: Call) -> bool:
    if call.method == "pad" and "tok" in call.receiver.casefold():
        return True
    padding = call.keywords.get("padding") or call.keywords.get("pad_to_max_length")
    return padding is not None and padding.kind == "literal" and padding.literal in (
        True, "max_length", "longest",
    )  # fmt: skip


def _fills(call: Call) -> bool:
    """torch.full(size, pad_id), and pad_sequence(rows, padding_value=pad_id) of token ids."""
    if call.name == "torch.full":
        given = [*call.args[1:2], *(v for k, v in call.keywords.items() if k == "fill_value")]
    elif call.method == "pad_sequence":
        given = [*call.args[2:3], *(v for k, v in call.keywords.items() if k == "padding_value")]
    else:
        return False
    names = [name for value in given for name in value.all_names]
    return any(re.search(r"pad|eos", name.casefold()) for name in names)


COPY = re.compile(r"(?:list|copy\.(?:deep)?copy)\(\w+\)|\w+(?:\[:\]|\.(?:copy|clone)\(\))?")
"""The same row once more: ids, ids[:], list(ids)."""


def _is_padded(
    reading: Training, value: Value, scope: int, position: int, base: str, depth: int = 6
) -> bool:
    """input_ids of what a tokenizer padded, through copies and names."""
    if value.kind == "call" and depth:
        call = reading.calls[value.call]
        plain = call.name.startswith(("torch.", "copy.", "list")) and call.args
        inner = call.args[0] if plain else objects.operand(call)
        if _fills(call):
            return reading.mentions("causallm", "gpt2lmhead", "llamafor")
        known = call.method in VIEWS and inner is not None and inner != value
        return known and _is_padded(reading, inner or value, scope, position, base, depth - 1)
    if value.name == "ListComp" and len(value.items) == 2 and depth:
        same = COPY.fullmatch(render(reading, value.items[1])) is not None
        return same and _is_padded(reading, value.items[0], scope, position, base, depth - 1)
    owner = value.name.removesuffix("[input_ids]").removesuffix(".input_ids")
    if value.kind in ("item", "name") and owner != value.name:
        made = evaluate.options_at(reading, Value("name", name=owner), scope, position, ())
        calls = reading.calls_of(made)
        if calls or any(v.kind != "name" for v in made):
            return any(_pads(call) for call in calls)
        return owner == base and not reading.mentions("seq2seq")
    if value.kind != "name" or not depth:
        return False
    found = evaluate.definitions(reading, value.name, scope, position, ())
    return bool(found) and all(
        _is_padded(reading, a.value, scope, position, base, depth - 1) for a in found
    )


LOADED = re.compile(r"transformers\..*from_pretrained")
ENCODERS = re.compile(
    r"transformers\.(?:AutoModel|AutoModelFor(?:Sequence|Token)Classification|"
    r"(?:Distil|Al|XLM)?(?:Ro|De)?[Bb]ert[aV]?\w*|Electra\w*|MPNet\w*)\.from_pretrained"
)
"""Models whose tokens attend to all others. CLIP's text encoder is causal and gets no mask."""


def mask_missing(reading: Training) -> Iterator[Match]:
    """model(input_ids=...) of a padded batch, without its attention mask."""
    if not any(_pads(call) for call in reading.calls):
        return
    for number, call in enumerate(reading.calls):
        model = call.receiver if call.method == "generate" else call.name
        ids = call.keywords.get("input_ids") or (call.args[0] if len(call.args) == 1 else None)
        if ids is None or call.unpacked or not model:
            continue
        if {"attention_mask", "inputs_embeds"} & call.keywords.keys():
            continue
        if call.args and not re.search(r"input_ids['\"]?\]?$", render(reading, ids)):
            continue
        owner = re.sub(r"(?:\.|\[['\"]?)input_ids.*", "", render(reading, ids))
        single = objects.last_definition(reading, owner, call)
        made = [
            c for c in map(reading.call_of, single) if c is not None and "tok" in c.name.casefold()
        ]
        if made and not any(map(_pads, made)):
            continue
        lineage = lineage_of(reading, model, call.scope, number)
        names = [reading.calls[n].name for n in lineage.calls]
        trained = reading.key(model, call.scope) in reading.trained_names and not call.args
        loaded = LOADED if trained and call.method != "generate" else ENCODERS
        if any(loaded.match(name) for name in names):
            yield Match(call.span, "padded input_ids without attention_mask: padding is attended")


DECODERS = re.compile(
    r"(?:openai-community/|distilbert/)?(?:distil)?gpt2(?:-medium|-large|-xl)?|"
    r"(?:meta-llama/(?:Meta-)?Llama|mistralai/Mistral|tiiuae/falcon|EleutherAI/gpt-neo)-[\w.-]+|"
    r"EleutherAI/pythia-[\w.-]+"
)
"""Models whose configuration names no padding token."""


def padding_unknown(reading: Training) -> Iterator[Match]:
    """A decoder that classifies texts looks for the last token before padding."""
    pads = any(_pads(call) for call in reading.calls) or reading.methods("DataCollatorWithPadding")
    aligned = any(  # a Trainer gives the model the token of its tokenizer
        {"processing_class", "tokenizer"} & reading.calls[n].keywords.keys()
        for n in reading.trainers
    )
    if not pads or aligned or reading.mentions("pad_token_id"):
        return
    for call in reading.named("from_pretrained"):
        named = evaluate.literals(reading, call.first, call) if call.first is not None else set()
        base = all(isinstance(name, str) and DECODERS.fullmatch(name) for name in named)
        if "ForSequenceClassification" in call.name and named and base:
            yield Match(call.span, "model.config.pad_token_id is not set: batches above 1 raise")


def texts_not_cut(reading: Training) -> Iterator[Match]:
    """tokenizer(texts, padding="max_length", max_length=256) leaves longer texts as they are."""
    for call in reading.calls:
        if "max_length" not in call.keywords or "truncation" in call.keywords or call.unpacked:
            continue
        texts = render(reading, call.args[0]) if call.args else ""
        column = re.fullmatch(r"\w+\['\w+'\]", texts)  # of rows of a dataset
        own = reading.target_function(call) is not None
        if column and "tok" in call.name.casefold() and _pads(call) and call.method != "pad" and (
            not own
        ):  # fmt: skip
            yield Match(call.span, "max_length cuts no text without truncation=True", "warn")


RULES = (
    Rule(
        code="SCR222",
        slug="padding-in-labels",
        title="Padding is masked out of the labels",
        severity="warn",
        find=each_of(padding_in_labels, masked_by_text),
        why="Only labels of -100 are left out of the loss. Where labels are a copy of padded "
        "input_ids, most of the loss may be the prediction of padding.",
        fires=(
            "batch['labels'] = batch['input_ids'] beside padding=True or 'max_length'",
            "the same in a dictionary that is returned, and for targets that are padded",
            "padding='max_length', and labels of which only the prompt is -100",
            "labels that are a copy of ids in torch.full(size, pad_id), or of pad_sequence()",
            "labels[labels == tokenizer.pad_token] = -100, which compares them with a text",
        ),
        fix="Set labels to -100 where attention_mask is 0, or use DataCollatorForLanguageModeling.",
        sources=("transformers-causal-loss",),
        limits="that a collator of another file does not mask them.",
    ),
    Rule(
        code="SCR433",
        slug="padding-token-unknown",
        title="A decoder that classifies texts knows its padding token",
        severity="fail",
        find=padding_unknown,
        why="The class is read at the last token before padding. Without config.pad_token_id the "
        'model raises "Cannot handle batch sizes > 1 if no padding token is defined".',
        fires=("GPT2ForSequenceClassification and the like with padding and no pad_token_id",),
        fix="model.config.pad_token_id = tokenizer.pad_token_id",
        sources=("transformers-causal-loss",),
        limits="that a saved configuration names the token.",
        needs=("from_pretrained",),
    ),
    Rule(
        code="SCR434",
        slug="texts-not-cut",
        title="Texts are cut at max_length",
        severity="warn",
        find=texts_not_cut,
        why="With padding, max_length alone says how far short texts are filled up: longer ones "
        "keep their length, do not join a batch, or exceed the positions of the model.",
        fires=("tokenizer(texts, padding=..., max_length=n) without truncation",),
        fix="Pass truncation=True.",
        sources=("transformers-16243",),
        needs=("max_length",),
    ),
    Rule(
        code="SCR299",
        slug="attention-mask-missing",
        title="Padded batches have an attention mask",
        severity="warn",
        find=mask_missing,
        why="Without the mask every token attends to padding, and the result depends on how long "
        "the other texts of the batch are.",
        fires=("model(input_ids=...) without attention_mask, and a tokenizer that pads",),
        fix="Pass attention_mask=batch['attention_mask'], or the whole batch: model(**batch).",
        needs=("padding", "pad_to_max_length", "pad"),
        sources=("bert-nli-3", "transformers-16243"),
    ),
)
