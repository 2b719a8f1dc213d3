"""A rule on settings of a Trainer that contradict each other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.naming import direction
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.trainers.hooks import of_trainers
from doctor.checks.script.trainers.kept_logits import logits_kept
from doctor.checks.script.trainers.metric_functions import metric_functions
from doctor.checks.script.trainers.steps_and_inputs import (
    all_splits,
    alone,
    endless,
    forceless,
    inputs_removed,
    packed_apart,
    reference_trains,
    removes_columns,
    steps_agree,
    unevaluated,
)
from doctor.checks.script.trainers.unshifted import unshifted
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

STRATEGIES = ("eval_strategy", "evaluation_strategy")


def settings_contradict(reading: Training) -> Iterator[Match]:
    yield from reference_trains(reading)
    yield from all_splits(reading)
    yield from of_trainers(reading)
    for call in reading.cached(_settings):
        if evaluate.unpacks_unknown(reading, call):
            continue
        yield from _best_model(reading, call)
        yield from _resumed(reading, call)
        yield from _columns(reading, call)
        yield from _generated(reading, call)
        yield from _stopped(reading, call)
        yield from _metric_missing(reading, call)
        yield from _collated(reading, call)
        yield from endless(reading, call)
        yield from steps_agree(reading, call)
        yield from forceless(reading, call)
        yield from alone(reading, call)
        yield from packed_apart(reading, call)
        yield from unevaluated(reading, call)
        yield from inputs_removed(reading, call)


def _settings(reading: Training) -> list[Call]:
    """The calls that make arguments, with what a dictionary gives and what is assigned later."""
    found, later = [], defaultdict(list)
    for each in reading.assignments if reading.arguments else ():
        if "." in each.target:
            later[each.scope, each.target.rpartition(".")[0]].append(each)
    for number, call in reading.numbered(reading.arguments):
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
    better = (_computed(reading, str(metric)) or direction(metric)) if metric else 0
    if greater is None:
        wrong = better < 0 and not str(metric).endswith("loss")
        if wrong and loads:
            message = f"the highest {metric} is kept: greater_is_better is True by default"
            yield Match(call.span, message, fix="greater_is_better=False.")
        return
    truth = evaluate.truth(reading, greater, call)
    if (better > 0 and truth is False) or (better < 0 and truth is True):
        yield Match(call.span, f"greater_is_better={truth} keeps the worst {metric}")


ERRORS = {"log_loss", "mean_squared_error", "mean_absolute_error", "root_mean_squared_error",
          "hamming_loss", "brier_score_loss", "mean_absolute_percentage_error", "max_error",
          "zero_one_loss", "wer", "cer", "mse_loss", "l1_loss", "cross_entropy"}  # fmt: skip


def _computed(reading: Training, metric: str) -> int:
    """-1 where compute_metrics returns an error under this key, 0 where that is not known."""
    for scope in metric_functions(reading):
        for value in reading.function(scope).returns:
            entered = evaluate.entry(reading, value, metric.removeprefix("eval_"))
            calls = [entered.call, *entered.calls] if entered is not None else []
            if any(n >= 0 and reading.calls[n].method in ERRORS for n in calls):
                return -1
    return 0


def _resumed(reading: Training, call: Call) -> Iterator[Match]:
    value = call.keywords.get("resume_from_checkpoint")
    if value is None or (value.kind == "literal" and not value.literal):
        return
    trains = [other for other in reading.named("train") if other.receiver]
    named = any(
        name.endswith(".resume_from_checkpoint")
        for each, _, _ in reading.expressions
        for name in each.all_names
    )
    plain = [each for each in trains if "trainer" in each.receiver.casefold()]
    if plain and not named and not any(e.args or e.keywords or e.unpacked for e in plain):
        yield Match(call.span, "train() does not read resume_from_checkpoint of the arguments")


def _columns(reading: Training, call: Call) -> Iterator[Match]:
    """The Trainer removes columns that only a transform of its dataset reads."""
    if not removes_columns(call):
        return
    if not reading.imports_from("datasets"):
        return
    given = {
        name.partition("[")[0]
        for n in reading.trainers
        for key in ("train_dataset", "eval_dataset")
        if (data := reading.calls[n].keywords.get(key)) is not None
        for name in data.all_names
        if reading.calls[n].scope == call.scope
    }
    for each in reading.named("set_transform", "with_transform"):
        names = {name.partition("[")[0] for name in (each.receiver, *each.targets)}
        known = is_of_datasets(reading, each)
        if known and each.args and names & given - {""} and each.scope == call.scope:
            message = "the columns that the transform reads are removed: remove_unused_columns"
            yield Match(call.span, message, fix="Set remove_unused_columns=False.")
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
    for scope in metric_functions(reading):
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
            other.method in ("update", "setdefault") and other.receiver in names
            for other in reading.calls_in(scope)
        ) or any(
            a.scope == scope and a.target.partition("[")[0] in names and "[" in a.target
            for a in reading.assignments
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
            message = f"compute_metrics returns no {metric}: it has {keys}"
            yield Match(call.span, message, fix="Name one of these in metric_for_best_model.")
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
    made = reading.calls_of(evaluate.receivers(reading, call))
    names = {str(m.args[0].literal) for m in made if m.name == "evaluate.load" and m.args}
    return names.pop() if len(names) == 1 and names <= KNOWN else ""


TEXTS = {"text", "sentence", "prompt", "question", "answer", "image", "audio", "path", "caption",
         "context", "summary", "document", "review", "content", "file", "filename", "url", "wav",
         "transcript", "transcription"}  # fmt: skip
RAW = ("_path", "_file", "_text", "_name", "_url")


def _collated(reading: Training, call: Call) -> Iterator[Match]:
    """The collator of this file reads a column that no forward() takes."""
    if not removes_columns(call):
        return
    for number in reading.trainers:
        made = reading.calls[number]
        value = made.keywords.get("data_collator")
        names = [reading.calls[n].name for n in reading.loads]
        loaded = {bool(re.match(r"transformers\.(?:Auto|\w+For[A-Z])", name)) for name in names}
        if value is None or loaded != {True} or not reading.is_transformers_trainer(made):
            continue
        scopes = set(_collators(reading, value, made))
        values = [each for each, _, where in reading.expressions if where in scopes]
        keys = {
            part.name.rpartition("[")[2].removesuffix("]")
            for part in flatten(values)
            if part.kind == "item" and part.name.endswith("]")
        }
        for key in sorted(k for k in keys if k in TEXTS or k.endswith(RAW))[:1]:
            message = f"the column {key} that the collator reads is removed: remove_unused_columns"
            yield Match(call.span, message, fix="TrainingArguments(remove_unused_columns=False).")


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
        results = reading.assigned_to(root, call.scope)
        inner = [other for each in results for other in reading.inside(each.value)]
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
    for scope in metric_functions(reading):
        calls = reading.calls_in(scope)
        decodes = any(c.method in ("batch_decode", "decode") for c in calls)
        if decodes and not any(c.method == "argmax" for c in calls):
            yield Match(call.span, "compute_metrics decodes logits: predict_with_generate is off")


RULES = (
    Rule(
        code="SCR274",
        slug="trainer-settings-contradict",
        title="The settings of a Trainer agree",
        severity="fail",
        find=each_of(settings_contradict, logits_kept, unshifted),
        why="Some combinations raise at the start; others keep the worst checkpoint, begin anew "
        "instead of resuming, or score logits as text.",
        fires=(
            "load_best_model_at_end without an evaluation, or saved at other times than evaluated",
            "eval_strategy of a Trainer without eval_dataset; all splits as train_dataset",
            "greater_is_better that does not fit metric_for_best_model",
            "resume_from_checkpoint in the arguments, and trainer.train() without it",
            "set_transform or with_transform without remove_unused_columns=False",
            "compute_metrics decodes, and predict_with_generate is not set",
            "a warm-up as long as max_steps; an evaluation after more steps",
            "compute_metrics=compute_metrics(); warmup_ratio above 1; a split that is asked for a "
            "split; labels of a causal model beside DataCollatorWithPadding",
            "compute_loss reads a column that the Trainer removes; ref_model is the model itself",
            "DPOConfig(beta=0.0), or KTOConfig; KTOConfig with one row per device",
            "SFTConfig(packing=True) of a model with sdpa or eager attention (a warning)",
            "argmax() of a causal model's logits in compute_metrics, without "
            "preprocess_logits_for_metrics (a warning)",
        ),
        fix="Set eval_strategy and save_strategy alike; pass resume_from_checkpoint to train().",
        sources=("transformers-12685", "transformers-31142", "transformers-23325"),
    ),
)
