"""Rules on what belongs to a pretrained model: its tokenizer, and the keys of its checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.ranks import ddp_calls
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value
from doctor.facts.script_machine import ScriptMachine

VOCABULARIES = (
    (
        "wordpiece",
        r"(?:google-bert/|google/|distilbert/|)(?:distil)?bert-(?:base|large)-((?:german-|"
        r"multilingual-)?(?:un)?cased|chinese)(?:-whole-word-masking|-finetuned|-distilled)*(?:-.*)?",
    ),
    (
        "byte-pair of GPT-2",
        r"(?:FacebookAI/|distilbert/|)(?:distil)?roberta-(?:base|large)()|"
        r"(?:openai-community/|distilbert/|)(?:distil)?gpt2(?:-medium|-large|-xl)?()",
    ),
    ("SentencePiece of T5", r"(?:google(?:-t5)?/)?(?:flan-)?t5-.*()"),
    ("SentencePiece of ALBERT", r"(?:albert/)?albert-.*()"),
    ("SentencePiece of XLM-R", r"(?:FacebookAI/)?xlm-roberta-.*()"),
    ("DeBERTa 3", r"microsoft/deberta-v3-.*()"),
)
"""Vocabularies of well-known checkpoints: those of different rows give other numbers to tokens."""


def _vocabulary(reading: Training, call: Call) -> str:
    """Which vocabulary a literal checkpoint has, "" for an unknown one."""
    value = evaluate.argument(reading, call, "pretrained_model_name_or_path", 0)
    names = evaluate.literals(reading, value, call)
    name = str(names.pop()) if len(names) == 1 else ""
    for label, pattern in VOCABULARIES:
        if found := re.fullmatch(pattern, name):
            return f"{label} {found.group(1) or ''}".strip()
    return ""


def other_tokenizer(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """One tokenizer and one model are loaded, and their vocabularies differ."""
    loads = [reading.calls[n] for n in reading.methods("from_pretrained")]
    tokenizers = [c for c in loads if "Tokenizer" in c.name and c.name.startswith("transformers.")]
    models = [
        c
        for c in loads
        if re.search(r"Model|For[A-Z]|LMHead", c.name)
        and c not in tokenizers
        and c.name.startswith("transformers.")
    ]
    if len(tokenizers) != 1 or len(models) != 1 or reading.mentions("encoderdecoder", "distill"):
        return
    own, model = _vocabulary(reading, tokenizers[0]), _vocabulary(reading, models[0])
    if own and model and own != model:
        yield Match(
            tokenizers[0].span, f"the tokenizer has the vocabulary {own}, the model {model}"
        )


def prefix_of_wrapper(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """Keys that begin with module. or model., and a load that expects none."""
    if reading.mentions("removeprefix", "consume_prefix", "startswith", "replace", "lstrip"):
        return
    yield from _of_ddp(reading)
    yield from _of_lightning(reading)


def _of_ddp(reading: Training) -> Iterator[Match]:
    wrapped: set[tuple[object, str]] = set()
    for n in ddp_calls(reading):
        for target in reading.calls[n].targets:
            wrapped |= reading.names_of(target, reading.calls[n].scope)
    first = min(ddp_calls(reading), default=0)
    saved = [
        call
        for n in reading.methods("state_dict")
        if wrapped
        if (call := reading.calls[n]).receiver
        and not call.arms[2:]
        and reading.key(call.receiver, call.scope) in wrapped
        and _is_saved(reading, n)
        and (n > first or call.scope != reading.calls[first].scope)
    ]
    for n in reading.methods("load_state_dict") if saved else ():
        call = reading.calls[n]
        base, _, last = call.receiver.rpartition(".")
        inner = last == "module" and reading.key(base, call.scope) in wrapped
        early = (
            n < first
            and call.scope == reading.calls[first].scope
            and (reading.key(call.receiver, call.scope) in wrapped)
        )
        if (inner or early) and _reads_file(reading, call):
            yield Match(
                saved[0].span,
                f"the keys of {saved[0].receiver} begin with module., and "
                f"{call.receiver} has none of these",
            )
            return


def _is_saved(reading: Training, number: int) -> bool:
    """The state is part of what torch.save gets."""
    return any(
        number in value.calls
        for n in reading.methods("save")
        for first in reading.calls[n].args[:1]
        for value in (first, *evaluate.options(reading, first, reading.calls[n]))
    )


def _reads_file(reading: Training, call: Call) -> bool:
    """What is loaded comes from torch.load."""
    values = evaluate.options(reading, call.args[0], call) if call.args else []
    roots = {v.name.partition("[")[0] for v in (*call.args[:1], *values) if v.name}
    return any(
        reading.calls[n].name == "torch.load"
        and (roots & set(reading.calls[n].targets) or n in [v.call for v in values])
        for n in reading.methods("load")
    )


def _of_lightning(reading: Training) -> Iterator[Match]:
    """net.load_state_dict(checkpoint["state_dict"], strict=False) of a LightningModule's file."""
    modules = {
        c.name
        for c in reading.script.classes
        if any(b.endswith("LightningModule") for b in c.bases)
    }
    for n in reading.methods("load_state_dict") if modules else ():
        call = reading.calls[n]
        texts = [call.args[0].name] if call.args else []
        texts += (
            [v.name for v in evaluate.options(reading, call.args[0], call)] if call.args else []
        )
        strict = call.keywords.get("strict")
        if not any(text.endswith("[state_dict]") for text in texts) or call.receiver == "self":
            continue
        if strict is None or strict.literal is not False:
            continue
        made = objects.makers(reading, Value("name", name=call.receiver), call.scope, n, call.arms)
        if all(m is not None and m.method[:1].isupper() and m.name not in modules for m in made):
            yield Match(
                call.span,
                "the keys of a LightningModule begin with its attribute: with "
                "strict=False nothing is loaded",
            )


RULES = (
    Rule(
        code="SCR326",
        slug="tokenizer-of-another-model",
        title="The tokenizer belongs to the model",
        severity="fail",
        find=other_tokenizer,
        why="Another vocabulary gives other numbers to the same tokens: the pretrained embeddings "
        "get random words, and ids beyond the table raise.",
        fires=("one tokenizer and one model of known checkpoints with different vocabularies",),
        fix="Load both from one name.",
        sources=("transformers-tokenizer",),
        needs=("from_pretrained",),
    ),
    Rule(
        code="SCR327",
        slug="checkpoint-prefix",
        title="Keys of a checkpoint fit what loads it",
        severity="fail",
        find=prefix_of_wrapper,
        why="A wrapper's keys begin with its attribute: module. of DDP, the name of the network of "
        "a LightningModule. Loaded without the wrapper nothing matches: it raises, and with "
        "strict=False the network keeps its random weights.",
        fires=(
            "torch.save of ddp.state_dict(), and ddp.module.load_state_dict() of it",
            "net.load_state_dict(checkpoint['state_dict'], strict=False) of Lightning",
        ),
        fix="Save model.module.state_dict(); remove the prefix from the keys before loading.",
        sources=("torch-saving",),
        needs=("load_state_dict",),
    ),
)
