"""Rules on tokenizers, embeddings and the settings of transformers' Trainer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call
from doctor.script.fixes import makers
from doctor.script.fixes.makers import Fix

ZERO_IS_REAL = ("gpt2", "gpt-2", "qwen", "phi", "falcon", "starcoder", "codegen", "deepseek")
"""Families whose token 0 is an ordinary token, mostly "!"."""
LLAMA_3 = ("llama-3", "llama3", "llama_3")
ZERO_IS_FREE = (
    "llama", "alpaca", "vicuna", "mistral", "bert", "t5", "bloom", "gemma", "baichuan", "xlm",
    "bart", "opt", "neox", "pythia", "chatglm", "zephyr", "internlm",
)  # fmt: skip


def pad_token_zero(reading: Training) -> Iterator[Match]:
    for each in reading.assignments:
        if not _sets_pad_zero(each) or reading.is_flagged(each):
            continue
        families = _families(reading, each)
        message = f"{each.target} = 0 pads with a token that the vocabulary uses"
        if "llama-3" in families:
            yield Match(each.span, message, "fail")
        elif "real" in families:
            yield Match(each.span, message)
        elif "unknown" in families:
            yield Match(each.span, f"{message}, in some models that the script may load")
        elif "" in families:
            yield Match(each.span, message, undecided="the model's family is not in this file")


LONGEST = 200
"""Of the places that are looked at: an expression refers back. Our own number."""
MASKED = re.compile(
    r"(?P<ids>(?:[\w.]+\.)?\w*(?:label|target|ids)\w*)\[\(?(?P=ids)[=!]=(?P<text>(?:[\w.]*\.)?\w*token\w*\."
    r"(?:pad|eos|bos|unk|sep|cls|mask)_token)\)?\]"
)


def masked_by_text(reading: Training) -> Iterator[Match]:
    """labels[labels == tokenizer.pad_token] = -100: ids are compared with a text."""
    if not reading.imports_from("transformers") and not reading.mentions("pad_token_id"):
        return  # a tokenizer of one's own may hold numbers
    for each in reading.script.parts:
        found = MASKED.fullmatch(each.target) if len(each.target) < LONGEST else None
        numbers = found is not None and any(
            a.target.endswith(found["text"].rpartition(".")[2]) and isinstance(a.value.literal, int)
            for a in reading.assignments
        )
        if found is not None and not numbers:
            message = f"{found['text']} is a text, which equals no token: nothing is masked"
            yield Match(each.span, message, fix=f"Compare with {found['text']}_id.")


def _sets_pad_zero(each: Assignment) -> bool:
    value = each.value
    zero = value.kind == "literal" and value.literal == 0 and not isinstance(value.literal, bool)
    target = each.target
    return zero and target.endswith(".pad_token_id") and "config" not in target.casefold()


def _families(reading: Training, at: Assignment) -> set[str]:
    """Of the tokenizers that may be set: llama-3, real, free; unknown for AutoTokenizer of a name
    that the file does not write out, "" where the file does not make the tokenizer.
    """
    owner = at.target.rpartition(".")[0]
    found = evaluate.definitions(reading, owner, at.scope, at.position, at.arms)
    results = set()
    for each in found:
        call = reading.call_of(each.value)
        results.add(_family(reading, call) if call is not None else "")
    return results or {_family_of_file(reading)}


def _family(reading: Training, call: Call) -> str:
    value = evaluate.argument(reading, call, "pretrained_model_name_or_path", 0)
    names = evaluate.literals(reading, value, call)
    text = f"{call.name} {' '.join(sorted(map(str, names)))}".casefold()
    family = _named_family(text)
    if family or call.method != "from_pretrained":
        return family
    return "unknown" if "AutoTokenizer" in call.name and evaluate.UNDECIDED in names else ""


def _named_family(text: str) -> str:
    for words, family in ((LLAMA_3, "llama-3"), (ZERO_IS_REAL, "real"), (ZERO_IS_FREE, "free")):
        if any(word in text for word in words):
            return family
    return ""


def _family_of_file(reading: Training) -> str:
    """Of all models that the file loads."""
    names: set[str] = set()
    for call in reading.named("from_pretrained"):
        names.add(call.name.casefold())
        value = evaluate.argument(reading, call, "pretrained_model_name_or_path", 0)
        names |= {str(each).casefold() for each in evaluate.literals(reading, value, call)}
    return _named_family(" ".join(sorted(names)))


def pad_zero_missing(reading: Training) -> Iterator[Match]:
    for each in reading.comparisons:
        if each.operator != "==" or each.right.literal != 0 or each.right.kind != "literal":
            continue
        if isinstance(each.right.literal, bool) or not each.left.name.endswith("pad_token_id"):
            continue
        message = f"{each.left.name} == 0 is taken for a missing padding token"
        if _branches_on(reading, each.left.name):
            yield Match(each.span, message)


def _branches_on(reading: Training, name: str) -> bool:
    """A condition on it adds or sets a padding token."""
    for number, branch in enumerate(reading.branches):
        test = branch.test
        if test is None or name not in test.names:
            continue
        for call in reading.calls:
            if (number, 0) in call.arms and call.method in ("add_special_tokens", "add_tokens"):
                return True
        for each in reading.assignments:
            if (number, 0) in each.arms and "pad_token" in each.target:
                return True
    return False


def nan_filter(reading: Training) -> Iterator[Match]:
    for number in reading.arguments:
        call = reading.calls[number]
        known = call.method.endswith("TrainingArguments") and not evaluate.unpacks_unknown(
            reading, call
        )
        filtered = evaluate.argument(reading, call, "logging_nan_inf_filter") is None
        if known and filtered and call.keywords:
            yield Match(call.name_span, "the Trainer logs a NaN loss as 0.0 or an older value")


def compile_unconditional(reading: Training) -> Iterator[Match]:
    trained = {key for each in reading.trained for key in each.lineage.names}
    for call in reading.named("compile"):
        if (
            call.name != "torch.compile"
            or not call.args
            or reading.is_conditional(call, tries=True)
        ):
            continue
        if any(key in call.keywords for key in ("disable",)) or reading.is_evaluation(call):
            continue
        value = call.args[0]
        if value.kind != "name":
            continue
        if reading.key(value.name, call.scope) in trained or "model" in value.name.casefold():
            if value.name.rpartition(".")[2].casefold().endswith(("_step", "_fn", "loss")):
                continue
            yield Match(call.span, f"torch.compile({value.name}) without a flag to turn it off")


RULES = (
    Rule(
        code="SCR126",
        slug="pad-token-zero",
        title="The padding token is not a token that texts use",
        severity="warn",
        find=pad_token_zero,
        training=True,
        why="Token 0 of Llama 3, GPT-2 and Qwen is an exclamation mark. Padding with it masks real "
        "text out of loss and attention. In Llama 1 and 2 it is the unknown token, and harmless.",
        fires=(
            "pad_token_id = 0 where the family's token 0 is an ordinary one",
            "the same on an AutoTokenizer of a model that the script takes from outside",
        ),
        errors=("the same for Llama 3",),
        fix="Add a padding token: tokenizer.add_special_tokens({'pad_token': '[PAD]'}) and "
        "resize the embeddings, or use a reserved token of the family.",
        needs=("pad_token_id",),
        sources=("bts-fix4",),
    ),
    Rule(
        code="SCR127",
        slug="pad-zero-as-missing",
        title="A missing padding token is tested with None",
        severity="warn",
        find=pad_zero_missing,
        training=True,
        why="0 is the padding token of BERT, T5 and others. A test for 0 replaces the token that "
        "these models were trained with.",
        fires=("pad_token_id == 0 decides that a padding token is added",),
        fix="Test tokenizer.pad_token is None.",
        needs=("pad_token_id",),
        sources=("bts-fix4",),
    ),
    Rule(
        code="SCR131",
        slug="nan-filter-hides-loss",
        title="The Trainer logs a NaN loss as NaN",
        severity="note",
        find=nan_filter,
        training=True,
        why="logging_nan_inf_filter is on by default: a NaN loss is logged as the average of the "
        "other steps, or 0.0. grad_norm shows nan meanwhile.",
        fires=("TrainingArguments without logging_nan_inf_filter",),
        fix="Pass logging_nan_inf_filter=False.",
        sources=("transformers-training-args",),
        fixes=Fix(makers.nan_filter, safe=False),
    ),
    Rule(
        code="SCR132",
        slug="compile-unconditional",
        title="torch.compile can be turned off",
        severity="note",
        find=compile_unconditional,
        training=True,
        why="A compiled model may differ from the eager one. Without a flag a fault cannot be "
        "attributed to compilation without an edit.",
        fires=("torch.compile of the model that trains, with no flag that decides it",),
        fix="Compile under a flag such as --compile, after the run was stable without.",
        needs=("compile",),
        sources=("bts-fix6",),
    ),
)
