"""Rules on tokenizers, embeddings and the settings of transformers' Trainer."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.lineage import lineage_of
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.trainable import PEFT
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value
from doctor.facts.script_machine import ScriptMachine
from doctor.script.fixes import makers
from doctor.script.fixes.makers import Fix

ZERO_IS_REAL = ("gpt2", "gpt-2", "qwen", "phi", "falcon", "starcoder", "codegen", "deepseek")
"""Families whose token 0 is an ordinary token, mostly "!"."""
LLAMA_3 = ("llama-3", "llama3", "llama_3")
ZERO_IS_FREE = (
    "llama", "alpaca", "vicuna", "mistral", "bert", "t5", "bloom", "gemma", "baichuan", "xlm",
    "bart", "opt", "neox", "pythia", "chatglm", "zephyr", "internlm",
)  # fmt: skip


def pad_token_zero(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for each in reading.script.assignments:
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
        call = reading.calls[each.value.call] if each.value.kind == "call" else None
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
    for number in reading.methods("from_pretrained"):
        call = reading.calls[number]
        names.add(call.name.casefold())
        value = evaluate.argument(reading, call, "pretrained_model_name_or_path", 0)
        names |= {str(each).casefold() for each in evaluate.literals(reading, value, call)}
    return _named_family(" ".join(sorted(names)))


def pad_zero_missing(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for each in reading.script.comparisons:
        if each.operator != "==" or each.right.literal != 0 or each.right.kind != "literal":
            continue
        if isinstance(each.right.literal, bool) or not each.left.name.endswith("pad_token_id"):
            continue
        message = f"{each.left.name} == 0 is taken for a missing padding token"
        if _branches_on(reading, each.left.name):
            yield Match(each.span, message)


def _branches_on(reading: Training, name: str) -> bool:
    """A condition on it adds or sets a padding token."""
    for number, branch in enumerate(reading.script.branches):
        test = branch.test
        if test is None or name not in test.names:
            continue
        for call in reading.calls:
            if (number, 0) in call.arms and call.method in ("add_special_tokens", "add_tokens"):
                return True
        for each in reading.script.assignments:
            if (number, 0) in each.arms and "pad_token" in each.target:
                return True
    return False


def tokens_without_resize(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    if not reading.loads or reading.mentions("resize_token_embeddings", "smart_tokenizer"):
        return
    if reading.mentions("setup_chat_format", "embedding_resize", "resize_embeddings"):
        return
    if not any(_loads_model(reading.calls[n]) for n in reading.loads):
        return
    for number in reading.methods("add_special_tokens", "add_tokens"):
        call = reading.calls[number]
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
        elif any(_is_reserved(token) for token in added):
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


def resize_after_peft(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    if reading.mentions("modules_to_save", "trainable_token_indices"):
        return
    for number in reading.methods("resize_token_embeddings"):
        call = reading.calls[number]
        if not call.receiver:
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
                message = "embeddings are resized after PEFT: new rows neither train nor save"
                yield Match(call.span, message)


def nan_filter(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.arguments:
        call = reading.calls[number]
        known = call.method.endswith("TrainingArguments") and not evaluate.unpacks_unknown(
            reading, call
        )
        filtered = evaluate.argument(reading, call, "logging_nan_inf_filter") is None
        if known and filtered and call.keywords:
            yield Match(call.name_span, "the Trainer logs a NaN loss as 0.0 or an older value")


def compile_unconditional(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    trained = {key for each in reading.trained for key in each.lineage.names}
    for number in reading.methods("compile"):
        call = reading.calls[number]
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


def new_rows_frozen(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """Tokens that texts use are added, and the adapters leave the embeddings frozen."""
    adds = [reading.calls[n] for n in reading.methods("add_tokens", "add_special_tokens")]
    used = [c for c in adds if c.method == "add_tokens" or any(
        "additional_special_tokens" in v.keys for v in c.args)]  # fmt: skip
    if not used or not reading.methods("resize_token_embeddings"):
        return
    if reading.mentions("embed_tokens", "lm_head", "trainable_token", "get_input_embeddings"):
        return
    for number in reading.methods("LoraConfig"):
        call = reading.calls[number]
        given = {"modules_to_save", "trainable_token_indices"} & call.keywords.keys()
        names = evaluate.options(reading, call.keywords.get("target_modules"), call)
        written = [v.literal for value in names for v in (value, *value.items)]
        own = any(w in str(text) for text in written for w in ("embed", "lm_head", "wte"))
        if not given and not call.unpacked and not own:
            yield Match(call.span, "the rows of the added tokens stay as they were drawn: "
                        "modules_to_save is missing")  # fmt: skip


RULES = (
    Rule(
        code="SCR331",
        slug="new-tokens-frozen",
        title="Embeddings of added tokens are trained",
        severity="warn",
        find=new_rows_frozen,
        why="LoRA freezes everything but its adapters: the new rows of the embeddings and the head "
        "keep their random values, and the model never learns to write these tokens.",
        fires=("tokens are added and LoraConfig has no modules_to_save",),
        fix='Pass modules_to_save=["embed_tokens", "lm_head"], or trainable_token_indices.',
        sources=("peft-new-tokens",),
        needs=("LoraConfig",),
    ),
    Rule(
        code="SCR126",
        slug="pad-token-zero",
        title="The padding token is not a token that texts use",
        severity="warn",
        find=pad_token_zero,
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
        why="0 is the padding token of BERT, T5 and others. A test for 0 replaces the token that "
        "these models were trained with.",
        fires=("pad_token_id == 0 decides that a padding token is added",),
        fix="Test tokenizer.pad_token is None.",
        needs=("pad_token_id",),
        sources=("bts-fix4",),
    ),
    Rule(
        code="SCR128",
        slug="tokens-added-without-resize",
        title="Embeddings are resized where tokens are added",
        severity="warn",
        find=tokens_without_resize,
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
        why="PEFT freezes the base model. Rows that are added later neither train nor are they "
        "saved with the adapter.",
        fires=("resize_token_embeddings on the result of get_peft_model",),
        fix="Resize before get_peft_model, and name the embeddings in modules_to_save.",
        needs=("resize_token_embeddings",),
        sources=("bts-fix4",),
    ),
    Rule(
        code="SCR131",
        slug="nan-filter-hides-loss",
        title="The Trainer logs a NaN loss as NaN",
        severity="note",
        find=nan_filter,
        why="logging_nan_inf_filter is on by default: a NaN loss is logged as the average of the "
        "other steps, or 0.0. grad_norm shows nan meanwhile.",
        fires=("TrainingArguments without logging_nan_inf_filter",),
        fix="Pass logging_nan_inf_filter=False.",
        sources=("cbl-root",),
        fixes=Fix(makers.nan_filter, safe=False),
    ),
    Rule(
        code="SCR132",
        slug="compile-unconditional",
        title="torch.compile can be turned off",
        severity="note",
        find=compile_unconditional,
        why="A compiled model may differ from the eager one. Without a flag a fault cannot be "
        "attributed to compilation without an edit.",
        fires=("torch.compile of the model that trains, with no flag that decides it",),
        fix="Compile under a flag such as --compile, after the run was stable without.",
        needs=("compile",),
        sources=("bts-fix6",),
    ),
)
