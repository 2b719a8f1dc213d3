"""Rules on tokens that are added to a model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.lineage import lineage_of
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.trainable import PEFT
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value


def tokens_without_resize(reading: Training) -> Iterator[Match]:
    if not reading.loads or reading.mentions("resize_token_embeddings", "smart_tokenizer"):
        return
    if reading.mentions("setup_chat_format", "embedding_resize", "resize_embeddings"):
        return
    if not any(_loads_model(reading.calls[n]) for n in reading.loads):
        return
    for call in reading.named("add_special_tokens", "add_tokens"):
        added = _added(reading, call)
        if (
            not added
            or not call.receiver
            or not call.receiver.rpartition(".")[2].endswith(("tokenizer", "tok", "tokeniser"))
        ):
            continue
        shown = ", ".join(sorted(added)[:3])
        message = f"{shown} may be new tokens, and the embeddings are not resized"
        if reading.is_flagged(call) and "pad" not in message.casefold():
            reason = "a condition decides whether the vocabulary has them"
            yield Match(call.span, message, undecided=reason)
        elif all(_is_reserved(token) for token in added):
            reason = "the vocabulary may already contain them"
            yield Match(call.span, message, undecided=reason)
        else:
            yield Match(call.span, message)


def _loads_model(call: Call) -> bool:
    return "Model" in call.name or "LM" in call.name


def _is_reserved(token: str) -> bool:
    return token.startswith("<|") or token in ("<pad>", "</s>", "<s>", "<unk>", "<mask>")


def _added(reading: Training, call: Call) -> set[str]:
    """Literal tokens that a call adds."""
    results: set[str] = set()
    value = call.args[0] if call.args else next(iter(call.keywords.values()), None)
    for option in evaluate.options(reading, value, call):
        results |= {
            item.literal
            for item in _leaves(option)
            if isinstance(item.literal, str) and item.kind == "literal"
        }
    return results


def _leaves(value: Value) -> Iterator[Value]:
    if value.kind in ("list", "dict"):
        for item in value.items:
            yield from _leaves(item)
    else:
        yield value


def resize_after_peft(reading: Training) -> Iterator[Match]:
    if reading.mentions("modules_to_save", "trainable_token_indices"):
        return
    for number, call in reading.numbered(reading.methods("resize_token_embeddings")):
        if not call.receiver or _adds_padding_only(reading, call, number):
            continue
        lineage = lineage_of(reading, call.receiver, call.scope, number)
        for wrap in lineage.calls:
            made = reading.calls[wrap]
            if made.method not in PEFT or "prepare" in made.method:
                continue
            here = made.scope == call.scope
            if (here or not call.receiver.startswith("self.")) and not (
                here and exclusive(made.arms, call.arms)
            ):
                message = "embeddings are resized after PEFT: the new rows do not train"
                yield Match(call.span, message)


def _adds_padding_only(reading: Training, resize: Call, number: int) -> bool:
    """All that the function adds before the resize is a pad token, whose row no loss reads."""
    adds = reading.named("add_tokens", "add_special_tokens")
    adds = [c for c in adds if c.scope == resize.scope and reading.number(c) < number]
    given = [next(iter((*c.args, *c.keywords.values())), None) for c in adds]
    values = [v for c, g in zip(adds, given, strict=True) for v in evaluate.options(reading, g, c)]
    return bool(values) and all(_keys(reading, value) == {"pad_token"} for value in values)


def _keys(reading: Training, value: Value) -> set[str]:
    made = reading.call_of(value)
    if made is not None:
        return set(made.keywords) if made.name == "dict" and not made.unpacked else set()
    return set(value.keys) if value.kind == "dict" else set()


def new_rows_frozen(reading: Training) -> Iterator[Match]:
    """Tokens that texts use are added, and the adapters leave the embeddings frozen."""
    yield from _head_frozen(reading)
    adds = reading.named("add_tokens", "add_special_tokens")
    used = [c for c in adds if c.method == "add_tokens" or any(
        "additional_special_tokens" in v.keys for v in c.args)]  # fmt: skip
    if not used or not reading.methods("resize_token_embeddings"):
        return
    if reading.mentions("embed_tokens", "lm_head", "trainable_token", "get_input_embeddings"):
        return
    for call in reading.named("LoraConfig"):
        given = {"modules_to_save", "trainable_token_indices"} & call.keywords.keys()
        names = evaluate.options(reading, call.keywords.get("target_modules"), call)
        written = [v.literal for value in names for v in (value, *value.items)]
        own = any(w in str(text) for text in written for w in ("embed", "lm_head", "wte"))
        if not given and not call.unpacked and not own:
            yield Match(call.span, "the rows of the added tokens stay as they were drawn: "
                        "modules_to_save is missing")  # fmt: skip


def _head_frozen(reading: Training) -> Iterator[Match]:
    """A classifier with new labels; without its task_type LoRA freezes the head."""
    if reading.mentions("requires_grad_", "unsloth", "set_adapter") or any(
        each.target.endswith((".requires_grad", ".task_type", ".modules_to_save"))
        for each in reading.assignments
    ):
        return
    loads = reading.named("from_pretrained")
    heads = [
        c for c in loads if HEADS.search(c.name) and {"num_labels", "id2label"} & c.keywords.keys()
    ]
    if not heads or not reading.methods("get_peft_model"):
        return
    for call in reading.named("LoraConfig"):
        names = evaluate.options(reading, call.keywords.get("target_modules"), call)
        written = [str(v.literal) for value in names for v in (value, *value.items)]
        own = any(word in text for text in written for word in ("score", "classifier", "head"))
        known = {"task_type", "modules_to_save"} & call.keywords.keys()
        if call.name == "peft.LoraConfig" and not (known or call.unpacked or own):
            message = "the new head of the classifier is frozen: task_type is missing"
            yield Match(call.span, message)


HEADS = re.compile(r"For(?:Sequence|Token|Image|Audio|Video)Classification\.from_pretrained$")
"""Models whose head is drawn anew where the number of labels is given."""


RULES = (
    Rule(
        code="SCR331",
        slug="new-tokens-frozen",
        title="What is new in a model is trained beside its adapters",
        severity="warn",
        find=new_rows_frozen,
        why="LoRA freezes everything but its adapters: the new rows of the embeddings and the head "
        "keep their random values, and the model never learns to write these tokens. The "
        "new head of a classifier trains only where task_type says what it is.",
        fires=(
            "tokens are added and LoraConfig has no modules_to_save",
            "a classifier of num_labels, and a LoraConfig with neither task_type nor "
            "modules_to_save",
        ),
        fix='Pass modules_to_save=["embed_tokens", "lm_head"], or trainable_token_indices; '
        'for a classifier task_type="SEQ_CLS", or modules_to_save=[its head].',
        sources=("peft-new-tokens",),
        needs=("LoraConfig",),
    ),
    Rule(
        code="SCR128",
        slug="tokens-added-without-resize",
        title="Embeddings are resized where tokens are added",
        severity="warn",
        find=tokens_without_resize,
        training=True,
        why="An id past the last row of the embedding raises an index error on the CPU and a "
        "device-side assert on a GPU.",
        fires=("add_special_tokens or add_tokens with new tokens, and no resize in the file",),
        fix="Call model.resize_token_embeddings(len(tokenizer)) after adding tokens.",
        needs=("add_special_tokens", "add_tokens"),
        sources=("bts-fix4",),
        limits="that the embedding has no spare rows; then added tokens fit without a resize.",
    ),
    Rule(
        code="SCR129",
        slug="resize-after-peft",
        title="Embeddings are resized before PEFT wraps the model",
        severity="warn",
        find=resize_after_peft,
        training=True,
        why="PEFT freezes the base model: rows that are added later keep their first values. Older "
        "releases of PEFT do not save them with the adapter either.",
        fires=("resize_token_embeddings on the result of get_peft_model",),
        fix="Resize before get_peft_model, and name the embeddings in modules_to_save.",
        needs=("resize_token_embeddings",),
        sources=("bts-fix4",),
    ),
)
