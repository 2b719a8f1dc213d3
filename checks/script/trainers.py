"""Rules on the settings of Trainers: what is evaluated, kept, resumed and trained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.lineage import WRAPPERS, lineage_of, lineage_of_value
from doctor.checks.script.naming import direction
from doctor.checks.script.parameters import LOOKS
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Trained, Training
from doctor.facts.script import Call, Value
from doctor.facts.script_machine import ScriptMachine

ADAPTS = {"get_peft_model", "add_adapter", "load_adapter", "prepare_model"}
STRATEGIES = ("eval_strategy", "evaluation_strategy")


def settings_contradict(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for call in reading.cached(_settings):
        if evaluate.unpacks_unknown(reading, call) or not call.keywords:
            continue
        yield from _best_model(reading, call)
        yield from _resumed(reading, call)
        yield from _columns(reading, call)
        yield from _generated(reading, call)
        yield from _stopped(reading, call)
        yield from _metric_missing(reading, call)
        yield from _collated(reading, call)


def _settings(reading: Training) -> list[Call]:
    """The calls that make arguments, with what a dictionary gives and what is assigned later."""
    found, later = [], defaultdict(list)
    for each in reading.script.assignments if reading.arguments else ():
        if "." in each.target:
            later[each.scope, each.target.rpartition(".")[0]].append(each)
    for number in reading.arguments:
        call = reading.calls[number]
        given: dict[str, Value] = {}
        for value in call.unpacked:
            for option in evaluate.options(reading, value, call):
                given |= dict(zip(option.keys, option.items, strict=False))
        for each in later.get((call.scope, "".join(call.targets[:1])), ()):
            if each.position > number and not (each.arms or each.loops or each.augmented):
                given[each.target.rpartition(".")[2]] = each.value
        found.append(reading.changed(call, {**call.keywords, **given}) if given else call)
    return found


def _text(reading: Training, call: Call, *names: str) -> str | None:
    """A literal setting; "" where it is not given, None where something else decides it."""
    for name in names:
        if (value := call.keywords.get(name)) is not None:
            found = evaluate.literals(reading, value, call)
            text = found.pop() if len(found) == 1 else evaluate.UNDECIDED
            return None if text == evaluate.UNDECIDED else str(text)
    return ""


def _best_model(reading: Training, call: Call) -> Iterator[Match]:
    best = call.keywords.get("load_best_model_at_end")
    loads = best is not None and evaluate.truth(reading, best, call) is True
    asked, saved = _text(reading, call, *STRATEGIES), _text(reading, call, "save_strategy")
    if loads and asked in ("", "no", "None"):
        yield Match(call.span, "load_best_model_at_end needs an evaluation: eval_strategy is no")
    elif loads and asked and saved is not None and saved != "best" and asked != (saved or "steps"):
        message = f"load_best_model_at_end: saved every {saved or 'steps'}, evaluated every {asked}"
        yield Match(call.span, message)
    elif loads and asked == "steps" and saved != "best":
        counts = [_text(reading, call, name) or "" for name in ("save_steps", "eval_steps")]
        if all(map(str.isdecimal, counts)) and int(counts[1]) and int(counts[0]) % int(counts[1]):
            message = f"saved every {counts[0]} steps, evaluated every {counts[1]}"
            yield Match(call.span, f"load_best_model_at_end: {message}")
    metric, greater = _text(reading, call, "metric_for_best_model"), call.keywords.get(
        "greater_is_better"
    )  # fmt: skip
    better = direction(metric) if metric else 0
    if greater is None:
        wrong = better < 0 and not str(metric).endswith("loss")
        if wrong and loads:
            yield Match(
                call.span, f"the highest {metric} is kept: greater_is_better is True by default"
            )
        return
    truth = evaluate.truth(reading, greater, call)
    if (better > 0 and truth is False) or (better < 0 and truth is True):
        yield Match(call.span, f"greater_is_better={truth} keeps the worst {metric}")


def _resumed(reading: Training, call: Call) -> Iterator[Match]:
    value = call.keywords.get("resume_from_checkpoint")
    if value is None or (value.kind == "literal" and not value.literal):
        return
    trains = [reading.calls[n] for n in reading.methods("train") if reading.calls[n].receiver]
    named = any(
        name.endswith(".resume_from_checkpoint")
        for each, _, _ in reading.expressions
        for name in (each.name, *each.names)
    )
    plain = [each for each in trains if "trainer" in each.receiver.casefold()]
    if plain and not named and not any(e.args or e.keywords or e.unpacked for e in plain):
        yield Match(call.span, "train() does not read resume_from_checkpoint of the arguments")


def _columns(reading: Training, call: Call) -> Iterator[Match]:
    """The Trainer removes columns that only a transform of its dataset reads."""
    if "remove_unused_columns" in call.keywords or not call.name.startswith("transformers."):
        return
    if not reading.imports_from("datasets"):
        return
    given = {
        name.partition("[")[0]
        for n in reading.trainers
        for key in ("train_dataset", "eval_dataset")
        if (data := reading.calls[n].keywords.get(key)) is not None
        for name in (data.name, *data.names)
        if reading.calls[n].scope == call.scope
    }
    for number in reading.methods("set_transform", "with_transform"):
        each = reading.calls[number]
        names = {name.partition("[")[0] for name in (each.receiver, *each.targets)}
        known = is_of_datasets(reading, each)
        if known and each.args and names & given - {""} and each.scope == call.scope:
            message = "the columns that the transform reads are removed: remove_unused_columns"
            yield Match(call.span, message)
            return


def _stopped(reading: Training, call: Call) -> Iterator[Match]:
    """EarlyStoppingCallback asserts that something is evaluated and compared."""
    if not reading.methods("EarlyStoppingCallback"):
        return
    if _text(reading, call, *STRATEGIES) in ("", "no", "None") and "do_eval" not in call.keywords:
        yield Match(call.span, "EarlyStoppingCallback needs an evaluation: eval_strategy is no")
    elif not {"metric_for_best_model", "load_best_model_at_end"} & call.keywords.keys():
        yield Match(call.span, "EarlyStoppingCallback needs metric_for_best_model")


def _metric_missing(reading: Training, call: Call) -> Iterator[Match]:
    """metric_for_best_model is none of the keys that compute_metrics returns."""
    metric = (_text(reading, call, "metric_for_best_model") or "").removeprefix("eval_")
    for scope in _metrics(reading):
        function = reading.function(scope)
        last = len(reading.calls)
        found = [
            option
            for value in function.returns
            for option in evaluate.options_at(reading, value, scope, last, ())
        ]
        written = [v for v in found if v.kind == "dict" and len(v.keys) == len(v.items) > 0]
        scored = [v for v in found if v.kind == "call" and reading.calls[v.call].name.startswith(
            "sklearn.metrics.") and reading.calls[v.call].method.endswith("_score")]  # fmt: skip
        names = {v.name for v in function.returns if v.kind == "name"}
        if any(
            reading.calls[n].method in ("update", "setdefault")
            and reading.calls[n].receiver in names
            for n in reading.scope_calls(scope)
        ) or any(
            a.scope == scope and a.target.partition("[")[0] in names and "[" in a.target
            for a in reading.script.assignments
        ):  # more keys are entered later
            continue
        if found and len(scored) == len(found):
            yield Match(function.exit_spans[0], "compute_metrics returns a number, not a dict")
        elif (
            metric
            and metric != "loss"
            and written
            and len(written) == len(found)
            and not any(metric in v.keys for v in written)
            and "tests" not in reading.script.path
        ):
            keys = ", ".join(written[0].keys[:3])
            yield Match(call.span, f"compute_metrics returns no {metric}: it has {keys}")
        loaded = _loaded_metric(reading, found)
        if loaded and metric and metric not in ("loss", loaded) and metric in KNOWN:
            yield Match(call.span, f"compute_metrics returns no {metric}: it has {loaded}")


KNOWN = {"accuracy", "f1", "precision", "recall", "matthews_correlation"}


def _loaded_metric(reading: Training, found: list[Value]) -> str:
    """accuracy of evaluate.load("accuracy").compute(...)."""
    if len(found) != 1 or found[0].kind != "call":
        return ""
    call = reading.calls[found[0].call]
    if call.method != "compute" or not call.receiver:
        return ""
    made = [
        reading.calls[v.call]
        for v in evaluate.options(reading, Value("name", name=call.receiver), call)
        if v.kind == "call"
    ]
    names = {str(m.args[0].literal) for m in made if m.name == "evaluate.load" and m.args}
    return names.pop() if len(names) == 1 and names <= KNOWN else ""


TEXTS = {"text", "sentence", "prompt", "question", "answer", "image", "audio", "path", "caption",
         "context", "summary", "document", "review", "content"}  # fmt: skip


def _collated(reading: Training, call: Call) -> Iterator[Match]:
    """The collator of this file reads a column that no forward() takes."""
    if "remove_unused_columns" in call.keywords or not call.name.startswith("transformers."):
        return
    for number in reading.trainers:
        made = reading.calls[number]
        value = made.keywords.get("data_collator")
        loaded = {reading.calls[n].name.startswith("transformers.Auto") for n in reading.loads}
        if value is None or loaded != {True} or not reading.is_transformers_trainer(made):
            continue
        scopes = set(_collators(reading, value, made))
        values = [each for each, _, where in reading.expressions if where in scopes]
        keys = {
            part.name.rpartition("[")[2].removesuffix("]")
            for part in flatten(values)
            if part.kind == "item" and part.name.endswith("]")
        }
        for key in sorted(keys & TEXTS)[:1]:
            message = f"the column {key} that the collator reads is removed: remove_unused_columns"
            yield Match(call.span, message)


def _collators(reading: Training, value: Value, call: Call) -> Iterator[int]:
    """The function that a collator of this file runs."""
    if value.kind == "name":
        yield from reading.functions_by_name.get(value.name, ())
    for option in evaluate.options(reading, value, call):
        if option.kind == "call":
            name = reading.calls[option.call].name
            for n in reading.functions_by_name.get("__call__", ()):
                if reading.function(n).owner == name:
                    yield n


def is_of_datasets(reading: Training, call: Call, depth: int = 6) -> bool:
    """The receiver is what a function of the package datasets returned, or made of it."""
    if call.receiver_call >= 0:
        inner = [reading.calls[call.receiver_call]]
    else:
        root = call.receiver.partition("[")[0]
        results = reading.assigned.get(reading.key(root, call.scope), ())
        inner = [reading.calls[n] for each in results for n in each.value.calls]
        inner += [reading.calls[a.value.call] for a in results if a.value.kind == "call"]
    return any(
        each.name.startswith("datasets.")
        or (depth > 0 and each is not call and is_of_datasets(reading, each, depth - 1))
        for each in inner[:8]
    )


def _generated(reading: Training, call: Call) -> Iterator[Match]:
    """Text is scored, and the evaluation returns logits."""
    if not call.method.startswith("Seq2Seq") or "predict_with_generate" in call.keywords:
        return
    for scope in _metrics(reading):
        calls = [reading.calls[n] for n in reading.scope_calls(scope)]
        decodes = any(c.method in ("batch_decode", "decode") for c in calls)
        if decodes and not any(c.method == "argmax" for c in calls):
            yield Match(call.span, "compute_metrics decodes logits: predict_with_generate is off")


def _metrics(reading: Training) -> list[int]:
    """Functions of the file that Trainers get as compute_metrics, also of objects and closures."""
    found: list[int] = []
    for n in reading.trainers:
        call = reading.calls[n]
        value = call.keywords.get("compute_metrics")
        for each in evaluate.options(reading, value, call) or ([value] if value else []):
            made = reading.calls[each.call].name if each.kind == "call" else ""
            own = objects.method_of(reading, made, "__call__") if made else None
            found += objects.functions_of(reading, each, call) if own is None else [own]
            owner, _, method = each.name.rpartition(".")
            named = reading.functions_by_name.get(method, ()) if owner else ()
            methods = [n for n in named if reading.function(n).owner]
            found += methods if len(methods) == 1 else []
    return sorted(set(found))


def labels_decoded(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    if not _masks_labels(reading):
        return
    for scope in _metrics(reading):
        values = [value for value, _, where in reading.expressions if where == scope]
        for each in reading.script.comparisons:
            values += [each.left, each.right] if each.scope == scope else []
        if any(value.literal == -100 or "ignore" in value.name.casefold() for value in values):
            continue
        for number in reading.scope_calls(scope):
            call = reading.calls[number]
            name = call.args[0].name if call.args else ""
            if call.method != "batch_decode" or "label" not in name.casefold():
                continue
            if not _may_be_masked(reading, scope, name, number):
                yield Match(call.span, f"{name} holds -100, which cannot be decoded")


def _masks_labels(reading: Training) -> bool:
    """A collator fills labels with -100, of transformers or of this file."""
    collators = reading.methods("DataCollatorForSeq2Seq", "DataCollatorForTokenClassification")
    made = [reading.calls[n] for n in collators]
    if any("label_pad_token_id" in each.keywords or each.unpacked for each in made):
        return False
    filled = (reading.calls[n] for n in reading.methods("masked_fill", "masked_fill_"))
    own = any(v.literal == -100 for call in filled for v in call.args)
    return bool(made) or own or "ignored_labels" in reading.script.identifiers


def _may_be_masked(reading: Training, scope: int, name: str, decode: int) -> bool:
    """The labels are compared, computed anew, or given to a function before they are decoded."""
    computed = any(
        each.scope == scope and each.target == name and (each.value.calls or each.value.items)
        for each in reading.script.assignments
    )
    tested = any(
        each.scope == scope and name in (each.left.name, each.right.name)
        for each in reading.script.comparisons
    )
    given = any(
        n < decode and name in (v.name, *v.names) and reading.calls[n].method not in LOOKS
        for n in reading.scope_calls(scope)
        for v in (*reading.calls[n].args, *reading.calls[n].keywords.values())
    )
    return computed or tested or given


def outputs_not_returned(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    evaluates = reading.methods("evaluate", "predict") or any(
        "eval_dataset" in reading.calls[n].keywords for n in reading.trainers
    )
    if reading.functions_by_name.keys() & {"prediction_step", "evaluation_loop", "evaluate"}:
        return
    for number in reading.functions_by_name.get("compute_loss", ()) if evaluates else ():
        function = reading.function(number)
        names = [parameter.name for parameter in function.parameters]
        bases = [b for c in reading.script.classes if c.name == function.owner for b in c.bases]
        if "return_outputs" not in names or not any(b.startswith("transformers.") for b in bases):
            continue
        read = any(
            "return_outputs" in (v.text, v.name, *v.names) or "return_outputs" in v.text
            for v, _, scope in reading.expressions
            if scope == number
        ) or any(
            branch.test is not None and "return_outputs" in branch.test.text
            for branch in reading.script.branches
        )
        if not read and function.returns:
            yield Match(function.span, "evaluation asks compute_loss for (loss, outputs)")


def nothing_trains(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """Adapters that are frozen, and quantized weights without adapters."""
    if reading.mentions("requires_grad", "set_adapter", "unsloth", "fastlanguagemodel"):
        return
    for number in reading.calls_where(lambda name: name.endswith("Config")):
        call = reading.calls[number]
        value = call.keywords.get("inference_mode")
        frozen = value is not None and value.literal is True and reading.trained
        if frozen and call.name.startswith("peft."):
            yield Match(call.span, "inference_mode=True freezes the adapters")
    yield from _prepared_late(reading)
    for trained in reading.trained:
        calls = [reading.calls[n] for n in trained.lineage.calls]
        methods = {call.method for call in calls}
        for call in calls if not methods & {"merge_and_unload", "get_peft_model"} else ():
            if call.name == "peft.PeftModel.from_pretrained" and _is_frozen(reading, call):
                yield Match(call.span, "the adapter is loaded frozen: is_trainable is False")
        adapted = methods & ADAPTS or any("peft" in call.name.casefold() for call in calls)
        if not adapted and any(_is_quantized(reading, call) for call in calls):
            yield from _without_adapters(reading, trained)


def _without_adapters(reading: Training, trained: Trained) -> Iterator[Match]:
    sink = reading.calls[trained.sink]
    known = trained.trainer and not sink.unpacked and "peft_config" not in sink.keywords
    if known and not reading.mentions("get_peft_model"):
        message = f"{trained.name} is quantized and has no adapters"
        yield Match(sink.span, message, undecided=_changes_elsewhere(reading, trained))


def _changes_elsewhere(reading: Training, trained: Trained) -> str:
    """Why another file may have given the model adapters, "" where none has it."""
    for number, call in enumerate(reading.calls[: trained.sink]):
        known = call.method in LOOKS | WRAPPERS or reading.target_function(call) is not None
        given = any(
            v.kind == "name" and reading.key(v.name, call.scope) in trained.lineage.names
            for v in (*call.args, *call.keywords.values())
        )
        if given and not known and number != trained.sink:
            return f"{call.name}() may add them"
    return ""


def _is_frozen(reading: Training, call: Call) -> bool:
    value = evaluate.argument(reading, call, "is_trainable", 3)
    if call.unpacked:
        return False
    return value is None or evaluate.truth(reading, value, call) is False


def _is_quantized(reading: Training, call: Call) -> bool:
    """load_in_4bit=True for certain, also in a BitsAndBytesConfig."""
    if call.method != "from_pretrained":
        return False
    for key in ("load_in_4bit", "load_in_8bit"):
        if key in call.keywords and evaluate.truth(reading, call.keywords[key], call) is True:
            return True
    value = call.keywords.get("quantization_config")
    found = evaluate.options(reading, value, call) if value is not None else []
    configs = [reading.calls[each.call] for each in found if each.kind == "call"]
    return bool(configs) and len(configs) == len(found) and all(
        config.method == "BitsAndBytesConfig"
        and any(
            evaluate.truth(reading, config.keywords.get(key), config) is True
            for key in ("load_in_4bit", "load_in_8bit")
        )
        for config in configs
    )  # fmt: skip


def _prepared_late(reading: Training) -> Iterator[Match]:
    """prepare_model_for_kbit_training freezes everything, adapters included."""
    for number in reading.methods("prepare_model_for_kbit_training"):
        call = reading.calls[number]
        if not call.args or call.args[0].kind != "name":
            continue
        lineage = lineage_of_value(reading, call.args[0], call.scope, number)
        before = {reading.calls[n].name for n in lineage.calls if n != number}
        if before & {"peft.get_peft_model", "peft.PeftModel.from_pretrained"}:
            later = [n for n in reading.methods("get_peft_model") if n > number]
            if not later:
                yield Match(call.span, "the adapters that the model has are frozen here")


def collator(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    causal = [
        reading.calls[n]
        for n in reading.loads
        if "CausalLM" in reading.calls[n].name or "LMHead" in reading.calls[n].name
    ]
    masked = any("MaskedLM" in reading.calls[n].name for n in reading.loads)
    for number in reading.methods("DataCollatorForLanguageModeling"):
        call = reading.calls[number]
        if not call.name.startswith("transformers.") or not causal or masked or call.unpacked:
            continue
        mlm = evaluate.argument(reading, call, "mlm", 1)
        truth = True if mlm is None else evaluate.truth(reading, mlm, call)
        if truth is True:
            yield Match(call.span, "mlm is True by default: tokens are masked for a causal model")
        elif truth is False:
            yield from _end_masked(reading)


def _end_masked(reading: Training) -> Iterator[Match]:
    """pad = eos, and eos is appended to the texts: the collator leaves it out of the labels."""
    if reading.mentions("group_texts", "packing", "concatenat", "block_size"):
        return
    for each in reading.script.assignments:
        owner, _, last = each.target.rpartition(".")
        source = f"{owner}.{last.replace('pad_', 'eos_')}"
        if last not in ("pad_token", "pad_token_id") or each.value.name != source:
            continue
        rendered = [reading.calls[n].scope for n in reading.methods("apply_chat_template")]
        held = reading.names_of(owner, each.scope)
        rendered += [
            each.scope if reading.key(owner, scope) in held else scope
            for value, _, scope in reading.expressions
            if value is not each.value and f"{owner}.eos_token" in value.names
        ]
        if any(_belongs(reading, scope, each.scope) for scope in rendered):
            message = f"{each.target} is the end token: the collator leaves it out of the labels"
            yield Match(each.span, message, "warn")


def _belongs(reading: Training, inner: int, outer: int) -> bool:
    """A function of the script, or one within the function."""
    if not outer or not inner:
        return True
    while inner > 0 and inner != outer:
        inner = reading.function(inner).parent
    return inner == outer


BOS = ("llama", "mistral", "mixtral", "gemma", "vicuna", "zephyr", "deepseek-llm", "phi-3-mini")
NO_BOS = ("qwen", "gpt", "smollm", "granite", "phi-4", "falcon", "bloom", "pythia")


def special_tokens_twice(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    rendered = {
        n
        for n in reading.methods("apply_chat_template")
        if (value := reading.calls[n].keywords.get("tokenize")) is not None
        and value.literal is False
    }
    for number, call in enumerate(reading.calls) if rendered else ():
        if not call.args or "add_special_tokens" in call.keywords or call.unpacked:
            continue
        owner = call.receiver if call.method in ("encode", "encode_plus") else call.name
        for option in evaluate.options(reading, call.args[0], call):
            if option.call not in rendered or option.call > number or option.kind != "call":
                continue
            known = _has_bos(reading, owner, call, number)
            if reading.calls[option.call].receiver == owner and known is not False:
                message = "the template's text begins with BOS, and gets another one"
                reason = "" if known else "the tokenizer's family is not in this file"
                yield Match(call.span, message, undecided=reason)


def _has_bos(reading: Training, owner: str, call: Call, number: int) -> bool | None:
    """Whether template and tokenizer of the family both add BOS; None where it is unknown."""
    texts: set[str] = set()
    for n in lineage_of(reading, owner, call.scope, number).calls:
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
        code="SCR274",
        slug="trainer-settings-contradict",
        title="The settings of a Trainer agree",
        severity="fail",
        find=settings_contradict,
        why="Some combinations raise at the start; others keep the worst checkpoint, begin anew "
        "instead of resuming, or score logits as text.",
        fires=(
            "load_best_model_at_end without an evaluation, or saved at other times than evaluated",
            "greater_is_better that does not fit metric_for_best_model",
            "resume_from_checkpoint in the arguments, and trainer.train() without it",
            "set_transform or with_transform without remove_unused_columns=False",
            "compute_metrics decodes, and predict_with_generate is not set",
        ),
        fix="Set eval_strategy and save_strategy alike; pass resume_from_checkpoint to train().",
        sources=("transformers-12685", "transformers-31142", "transformers-23325"),
    ),
    Rule(
        code="SCR275",
        slug="adapter-frozen",
        title="Adapters that train are trainable",
        severity="fail",
        find=nothing_trains,
        why="PeftModel.from_pretrained loads adapters for inference, inference_mode and "
        "prepare_model_for_kbit_training freeze them: backward() raises, or nothing changes.",
        fires=(
            "PeftModel.from_pretrained without is_trainable=True reaches an optimizer or a Trainer",
            "a configuration with inference_mode=True in a script that trains",
            "prepare_model_for_kbit_training on the result of get_peft_model",
            "a model loaded in 4 or 8 bits reaches a Trainer without adapters",
        ),
        fix="Pass is_trainable=True; prepare the model first, then call get_peft_model.",
        sources=("chinese-llama-alpaca-2-577", "transformers-26098", "peft-282"),
    ),
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
            "pad_token = eos_token where eos_token is appended to the texts (a warning)",
        ),
        fix="Pass mlm=False, and use a padding token that texts do not contain.",
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
        fires=("tokenizer(text) of apply_chat_template(tokenize=False)",),
        fix="Pass add_special_tokens=False, or tokenize=True to apply_chat_template.",
        needs=("apply_chat_template",),
        sources=("openrlhf-393", "generalizable-reward-model-6"),
        limits="that the tokenizer of another family adds no BOS.",
    ),
    Rule(
        code="SCR278",
        slug="ignored-labels-decoded",
        title="Labels are decoded without -100",
        severity="fail",
        find=labels_decoded,
        why="Collators fill labels with -100, which is no token: decoding raises an OverflowError "
        "at the first evaluation.",
        fires=("compute_metrics decodes labels, and -100 is not in the function",),
        fix="labels = np.where(labels != -100, labels, tokenizer.pad_token_id)",
        needs=("compute_metrics",),
        sources=("transformers-22634",),
    ),
    Rule(
        code="SCR279",
        slug="outputs-not-returned",
        title="compute_loss returns the outputs that evaluation asks for",
        severity="fail",
        find=outputs_not_returned,
        why="Evaluation calls compute_loss with return_outputs=True and unpacks a pair: a loss "
        "alone raises a TypeError after the first epoch.",
        fires=("an override with return_outputs that never reads it, and an eval_dataset",),
        fix="return (loss, outputs) if return_outputs else loss",
        needs=("compute_loss",),
        sources=("transformers-trainer",),
    ),
)
