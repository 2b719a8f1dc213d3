"""Rules on the texts of a Trainer: collators, chat templates, labels that are decoded."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.data.unlearned_ends import end_masked
from doctor.checks.script.lineage import lineage_of
from doctor.checks.script.model.parameters import LOOKS
from doctor.checks.script.naming import words
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.trainers.metric_functions import metric_functions
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value


def labels_decoded(reading: Training) -> Iterator[Match]:
    yield from _predictions_decoded(reading)
    if not _masks_labels(reading):
        return
    for scope in metric_functions(reading):
        values = reading.values_in(scope)
        for each in reading.comparisons:
            values += [each.left, each.right] if each.scope == scope else []
        if any(value.literal == -100 or "ignore" in value.name.casefold() for value in values):
            continue
        for number, call in reading.numbered(reading.scope_calls(scope)):
            name = call.args[0].name if call.args else ""
            if call.method != "batch_decode" or "label" not in name.casefold():
                continue
            if not _may_be_masked(reading, scope, name, number):
                yield Match(call.span, f"{name} holds -100, which cannot be decoded")


def _predictions_decoded(reading: Training) -> Iterator[Match]:
    """Seq2SeqTrainer fills generated rows of different lengths with -100, and they are decoded."""
    on, _ = reading.setting("predict_with_generate")
    longer = reading.setting("generation_max_length")[1]  # shorter rows are padded by the model's
    if (
        not on
        or longer is None
        or reading.mentions("generation_config", "whisper")
        or any(".generation_config" in each.target for each in reading.stores)
        or any("Seq2Seq" not in reading.calls[n].method for n in reading.trainers)
    ):
        return
    for scope in metric_functions(reading):
        for number, call in reading.numbered(reading.scope_calls(scope)):
            name = call.args[0].name if call.method == "batch_decode" and call.args else ""
            if _is_raw(reading, scope, name) and not _is_changed(reading, scope, name, number):
                fix = f"Decode np.where({name} != -100, {name}, tokenizer.pad_token_id)."
                message = f"{name} is filled with -100 where rows end, which cannot be decoded"
                yield Match(call.span, message, "warn", fix=fix)


def _is_raw(reading: Training, scope: int, name: str) -> bool:
    """p.predictions, or the first name that the argument of the function is unpacked to."""
    parameters = {p.name for p in reading.function(scope).parameters}
    own = [a for a in reading.assignments if a.scope == scope and a.target == name]
    own = [a for a in own if a.value.name != name]  # preds = preds[0]
    if not own:
        return name.partition(".")[0] in parameters and name.endswith(".predictions")
    if len(own) > 1:
        return False
    unpacked = own[0].value.kind == "other" and parameters.issuperset(own[0].value.names)
    return own[0].value.name.endswith(".predictions") or (
        unpacked and bool({*words(name)} & {"pred", "preds", "predictions", "generated"})
    )


def _is_changed(reading: Training, scope: int, name: str, number: int) -> bool:
    """It is compared, or given to another function or set before it is decoded."""
    compared = any(
        each.scope == scope and name in (each.left.name, each.right.name)
        for each in reading.comparisons
    )
    given = any(
        name in v.all_names or reading.calls[n].receiver == name
        for n in reading.scope_calls(scope)
        if n < number and reading.calls[n].method not in (*LOOKS, "len")
        for v in reading.calls[n].values
    )
    written = reading.stores
    return compared or given or any(a.target.startswith(f"{name}[") for a in written)


def _masks_labels(reading: Training) -> bool:
    """A collator fills labels with -100, of transformers or of this file."""
    collators = reading.methods("DataCollatorForSeq2Seq", "DataCollatorForTokenClassification")
    made = [reading.calls[n] for n in collators]
    if any("label_pad_token_id" in each.keywords or each.unpacked for each in made):
        return False
    filled = reading.named("masked_fill", "masked_fill_")
    own = any(v.literal == -100 for call in filled for v in call.args)
    return bool(made) or own or "ignored_labels" in reading.script.identifiers


def _may_be_masked(reading: Training, scope: int, name: str, decode: int) -> bool:
    """The labels are compared, computed anew, or given to a function before they are decoded."""
    computed = any(
        each.scope == scope and each.target == name and (each.value.calls or each.value.items)
        for each in reading.assignments
    )
    tested = any(
        each.scope == scope and name in (each.left.name, each.right.name)
        for each in reading.comparisons
    )
    given = any(
        n < decode and name in v.all_names and reading.calls[n].method not in LOOKS
        for n in reading.scope_calls(scope)
        for v in reading.calls[n].values
    )
    return computed or tested or given


def _beside_masked(reading: Training, call: Call) -> bool:
    """Whether a masked model is made in the function of the call, or in none."""
    made = (each.scope for each in reading.calls if "MaskedLM" in each.name)
    return any(call.scope == scope or 0 in (call.scope, scope) for scope in made)


def collator(reading: Training) -> Iterator[Match]:
    names = reading.model_names
    causal = any("CausalLM" in name or "LMHead" in name for name in names)
    masked = any("MaskedLM" in name for name in names)
    for call in reading.named("DataCollatorForLanguageModeling"):
        asked = evaluate.argument(reading, call, "mlm", 1)
        off = asked is not None and evaluate.truth(reading, asked, call) is False
        if (
            off
            and not causal
            and _beside_masked(reading, call)
            and call.name.startswith("transformers.")
        ):
            yield Match(call.span, "mlm=False masks nothing: the masked model copies its input")
        if not call.name.startswith("transformers.") or not causal or masked or call.unpacked:
            continue
        mlm = evaluate.argument(reading, call, "mlm", 1)
        truth = True if mlm is None else evaluate.truth(reading, mlm, call)
        if truth is True:
            yield Match(call.span, "mlm is True by default: tokens are masked for a causal model")
        elif truth is False:
            yield from end_masked(reading)


BOS = ("llama", "mistral", "mixtral", "gemma", "vicuna", "deepseek-llm", "phi-3-mini")


NO_BOS = ("qwen", "gpt", "smollm", "granite", "phi-4", "falcon", "bloom", "pythia", "zephyr",
          "tinyllama")  # fmt: skip


def special_tokens_twice(reading: Training) -> Iterator[Match]:
    rendered = {
        n
        for n in reading.methods("apply_chat_template")
        if (value := reading.calls[n].keywords.get("tokenize")) is not None
        and value.literal is False
    }
    columns = _rendered_columns(reading, rendered) if not reading.mentions("add_bos") else {}
    for number, call in enumerate(reading.calls) if rendered else ():
        if not call.args or "add_special_tokens" in call.keywords or call.unpacked:
            continue
        owner = call.receiver if call.method in ("encode", "encode_plus") else call.name
        known = _has_bos(reading, owner, call, number)
        message = "the template's text begins with BOS, and gets another one"
        reason = "" if known else "the tokenizer's family is not in this file"
        if reading.key(owner, call.scope) in columns.get(_column(call.args[0]), ()):
            if known is not False:
                yield Match(call.span, message, undecided=reason)
            continue
        options = evaluate.options(reading, call.args[0], call)
        for option in [v.items[-1] if v.name == "ListComp" else v for v in options]:
            if option.call not in rendered or option.call > number or option.kind != "call":
                continue
            if reading.calls[option.call].receiver == owner and known is not False:
                yield Match(call.span, message, undecided=reason)


def _rendered_columns(reading: Training, rendered: set[int]) -> dict[str, set[tuple[object, str]]]:
    """Columns that a function for map() fills with rendered texts only, and by which tokenizer."""
    found: dict[str, set[tuple[object, str]]] = {}
    other: set[str] = set()
    for scope, function in enumerate(reading.script.functions):
        for value in function.returns if scope else ():
            for key, item in zip(value.keys, value.items, strict=False):
                texts = item.items[-1:] if item.name == "ListComp" else (item,)
                made = {each.call for each in texts if each.kind == "call"}
                if made and made <= rendered:
                    owners = {reading.key(reading.calls[n].receiver, scope) for n in made}
                    found.setdefault(key, set()).update(owners)
                else:
                    other.add(key)
    return {key: owners for key, owners in found.items() if key not in other}


def _column(value: Value) -> str:
    """text of batch["text"]."""
    named = value.kind == "item" and len(value.items) == 2 and value.items[0].kind == "name"
    key = value.items[1].literal if named else None
    return key if isinstance(key, str) else ""


def _has_bos(reading: Training, owner: str, call: Call, number: int) -> bool | None:
    """Whether template and tokenizer of the family both add BOS; None where it is unknown."""
    texts: set[str] = set()
    made_by = lineage_of(reading, owner, call.scope, number).calls
    if not made_by:  # an attribute: the only tokenizer of the file
        loaded = [n for n in reading.methods("from_pretrained")
                  if "Tokenizer" in reading.calls[n].name]  # fmt: skip
        made_by = tuple(loaded) if len(loaded) == 1 else ()
    for n in made_by:
        made = reading.calls[n]
        value = evaluate.argument(reading, made, "pretrained_model_name_or_path", 0)
        if value is not None:
            texts |= {str(name).casefold() for name in evaluate.literals(reading, value, made)}
            texts.add(str(evaluate.flag_default(reading, value.name)).casefold())
    if any(word in text for text in texts for word in NO_BOS):
        return False
    return True if any(word in text for text in texts for word in BOS) else None


RULES = (
    Rule(
        code="SCR276",
        slug="collator-labels",
        title="The collator makes labels that the model should learn",
        severity="fail",
        find=collator,
        why="DataCollatorForLanguageModeling masks random tokens unless mlm=False. With it, every "
        "padding token is left out of the labels, the end token too where both are one: the model "
        "never learns to stop.",
        fires=(
            "no mlm=False for a causal model",
            "pad_token = eos_token where eos_token is appended to the texts, or its number to the "
            "tokens (a warning)",
        ),
        fix="Pass mlm=False for a causal model and mlm=True for a masked one, and use a padding "
        "token that texts do not contain.",
        needs=("DataCollatorForLanguageModeling",),
        sources=("transformers-23530", "transformers-22794"),
    ),
    Rule(
        code="SCR277",
        slug="special-tokens-twice",
        title="A rendered chat template gets no further special tokens",
        severity="warn",
        find=special_tokens_twice,
        why="Templates of Llama, Gemma and Mistral write BOS, and the tokenizer adds one more: the "
        "model trains on a start that it does not see later.",
        fires=(
            "tokenizer(text) of apply_chat_template(tokenize=False), also of a column that another "
            "function for map() rendered",
        ),
        fix="Pass add_special_tokens=False, or tokenize=True to apply_chat_template.",
        needs=("apply_chat_template",),
        sources=("openrlhf-393", "generalizable-reward-model-6"),
        limits="that the tokenizer of another family adds no BOS.",
    ),
    Rule(
        code="SCR278",
        slug="ignored-labels-decoded",
        title="Labels and predictions are decoded without -100",
        severity="fail",
        find=labels_decoded,
        why="Collators fill labels with -100, and Seq2SeqTrainer fills generated rows with it, "
        "which is no token: decoding raises an OverflowError at the first evaluation.",
        fires=(
            "compute_metrics decodes labels, and -100 is not in the function",
            "it decodes predictions as they come, with generation_max_length (a warning)",
        ),
        fix="labels = np.where(labels != -100, labels, tokenizer.pad_token_id)",
        needs=("compute_metrics",),
        sources=("transformers-22634",),
    ),
)
