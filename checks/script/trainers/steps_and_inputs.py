"""What a Trainer's settings say of its steps, and what reaches its loss."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

INPUTS = {
    "labels", "label", "label_ids", "input_ids", "attention_mask", "token_type_ids",
    "pixel_values", "inputs_embeds", "decoder_input_ids", "position_ids", "input_features",
    "input_values", "start_positions", "end_positions", "return_loss", "pixel_mask", "class_labels",
    "mask_labels", "decoder_attention_mask", "bbox", "next_sentence_label", "global_attention_mask",
}  # fmt: skip
"""Arguments of the models of transformers."""


def steps_agree(reading: Training, call: Call) -> Iterator[Match]:
    """A warm-up, or the wait for an evaluation, that is longer than the run."""
    most = evaluate.number(reading, call.keywords.get("max_steps"), call)
    if not most or most < 2:
        return
    warm, evaluated = (
        evaluate.number(reading, call.keywords.get(name), call)
        for name in ("warmup_steps", "eval_steps")
    )
    if warm and warm >= most:
        yield Match(call.span, f"the warm-up of {warm:g} steps is as long as the run of {most:g}")
    if evaluated and evaluated > most:
        yield Match(call.span, f"evaluated every {evaluated:g} steps of {most:g}: never", "warn")


def forceless(reading: Training, call: Call) -> Iterator[Match]:
    """DPOConfig(beta=0.0): the loss is log 2 for whatever the model says."""
    beta = call.keywords.get("beta")
    kind = evaluate.literals(reading, call.keywords.get("loss_type"), call)
    plain = "loss_type" not in call.keywords or kind <= {"sigmoid", "hinge", "ipo", "robust", "kto"}
    if call.method not in ("DPOConfig", "KTOConfig") or beta is None or not plain:
        return
    zero = evaluate.literals(reading, beta, call) in ({0}, {0.0})
    if zero and not {"rpo_alpha", "loss_weights", "use_weighting"} & call.keywords.keys():
        message = "beta=0 multiplies the preferences by 0: no gradient is left"
        yield Match(call.span, message, fix="Set beta above 0; 0.1 is the default.")


def packed_apart(reading: Training, call: Call) -> Iterator[Match]:
    """SFTConfig(packing=True) of a model with attn_implementation="sdpa": samples see others."""
    if call.method != "SFTConfig" or evaluate.truth(
        reading, call.keywords.get("packing"), call
    ) is not True or "packing_strategy" in call.keywords:  # fmt: skip
        return
    loads = [reading.calls[n] for n in reading.loads]
    kinds = [evaluate.literals(reading, c.keywords.get("attn_implementation"), c) for c in loads]
    if kinds and all(kind and kind <= {"sdpa", "eager"} for kind in kinds):
        message = f"packing with {min(map(str, kinds[0]))} attention: samples attend to each other"
        fix = "Load the model with attn_implementation='flash_attention_2', or set packing=False."
        yield Match(call.span, message, "warn", fix=fix)


def alone(reading: Training, call: Call) -> Iterator[Match]:
    """KTOConfig(per_device_train_batch_size=1): the KL term pairs prompts with other answers."""
    size = call.keywords.get("per_device_train_batch_size")
    kind = evaluate.literals(reading, call.keywords.get("loss_type"), call)
    if call.method != "KTOConfig" or size is None or not kind <= {"kto"}:
        return
    if evaluate.literals(reading, size, call) == {1}:
        message = "KTO compares the rows of one device's batch: with one row it raises"
        fix = "Set per_device_train_batch_size to 2 or more, and accumulate less."
        yield Match(call.span, message, fix=fix)


def removes_columns(call: Call) -> bool:
    """These arguments of transformers leave remove_unused_columns as it is, on."""
    return call.name.startswith("transformers.") and "remove_unused_columns" not in call.keywords


def inputs_removed(reading: Training, call: Call) -> Iterator[Match]:
    """compute_loss reads a column that no model of transformers takes."""
    if not removes_columns(call):
        return
    made = [reading.calls[n] for n in reading.trainers]
    if not reading.loads or any(_is_collated_here(reading, c) for c in made) or reading.mentions(
        "remove_unused_columns", "get_train_dataloader", "_set_signature_columns"
    ):  # fmt: skip
        return
    plain = all(reading.calls[n].name.startswith("transformers.Auto") for n in reading.loads)
    owners = {each.name for each in reading.script.classes
              if "transformers.Trainer" in each.bases}  # fmt: skip
    for number in reading.functions_by_name.get("compute_loss", ()) if plain else ():
        if reading.function(number).owner not in owners:
            continue
        keys = {
            str(c.args[0].literal)
            for n in reading.scope_calls(number)
            if (c := reading.calls[n]).name == "inputs.pop" and len(c.args) == 1
        }
        keys |= {
            part.name.rpartition("[")[2].removesuffix("]")
            for value, _, scope in reading.expressions
            if scope == number
            for part in flatten([value])
            if part.kind == "item" and part.name.startswith("inputs[")
        }
        unknown = sorted(key for key in keys - INPUTS if key.isidentifier())
        if unknown:
            message = f"the column {unknown[0]} that compute_loss reads is removed"
            own = "TrainingArguments(remove_unused_columns=False)."
            yield Match(call.span, f"{message}: remove_unused_columns", fix=own)


def _is_collated_here(reading: Training, trainer: Call) -> bool:
    """The batch comes of a collator that is not one of transformers."""
    value = trainer.keywords.get("data_collator")
    made = evaluate.options(reading, value, trainer)
    return value is not None and not all(
        reading.called(each).startswith("transformers.") for each in made
    )


def reference_trains(reading: Training) -> Iterator[Match]:
    """DPOTrainer(model=model, ref_model=model)."""
    for n in reading.trainers:
        call = reading.calls[n]
        model, other = call.keywords.get("model"), call.keywords.get("ref_model")
        if model is not None and model == other and model.kind == "name":
            yield Match(call.span, f"{model.name} is its own reference: it moves with the policy")


def endless(reading: Training, call: Call) -> Iterator[Match]:
    """A dataset with streaming=True, and no max_steps: it has no length."""
    if evaluate.argument(reading, call, "max_steps") is not None or call.unpacked:
        return
    if reading.parses_arguments:
        return
    for number in reading.trainers:
        if not _takes(reading, reading.calls[number], call):
            continue
        data = reading.calls[number].keywords.get("train_dataset")
        whole = data.items[0] if data is not None and data.kind == "item" and data.items else data
        loads = _loaded(reading, whole, reading.calls[number]) if whole is not None else []
        if loads and all(each is not None and _streams(reading, each) for each in loads):
            yield Match(call.span, "a streamed dataset has no length: max_steps is missing")
            return


OF_DATASETS = {
    "map", "filter", "shuffle", "select_columns", "remove_columns", "rename_column", "with_format",
    "rename_columns", "cast", "cast_column", "skip", "shard", "add_column", "batch",
    "flatten",
}  # fmt: skip
"""Methods of a dataset, or of a dictionary of them, that return one of the same kind."""


def _loaded(reading: Training, value: Value, call: Call, depth: int = 8) -> list[Call | None]:
    """The calls that a dataset comes from, under methods and names; None for what is unknown."""
    found: list[Call | None] = []
    for option in evaluate.options(reading, value, call) if depth else []:
        made = reading.call_of(option)
        if made is None or made.method not in OF_DATASETS or "[]" in made.name:
            found.append(made)  # what is called on a part of a dataset is a split
        else:
            found += _loaded(reading, objects.receiver_of(made), made, depth - 1)
    return found or [None]


def _streams(reading: Training, made: Call) -> bool:
    stream = made.keywords.get("streaming")
    asked = stream is not None and evaluate.truth(reading, stream, made) is True
    return asked or made.method == "to_iterable_dataset"


def unevaluated(reading: Training, call: Call) -> Iterator[Match]:
    """eval_strategy="epoch", and a Trainer without eval_dataset."""
    asked = [k for k in ("eval_strategy", "evaluation_strategy") if k in call.keywords]
    known = asked and evaluate.literals(reading, call.keywords[asked[0]], call) <= {
        "steps",
        "epoch",
    }
    made = [reading.calls[n] for n in reading.trainers]
    if not known or not made or reading.parses_arguments:
        return
    if all(_is_plain(each) and "eval_dataset" not in each.keywords and len(each.args) < 5
           and "train_dataset" in each.keywords for each in made):  # fmt: skip
        message = f"{asked[0]} asks for an evaluation, and the Trainer has no eval_dataset"
        yield Match(call.span, message, fix='Pass eval_dataset, or eval_strategy="no".')


def all_splits(reading: Training) -> Iterator[Match]:
    """train_dataset=load_dataset("json", data_files=path): a dictionary of its splits."""
    for call in (reading.calls[n] for n in reading.trainers):
        data = call.keywords.get("train_dataset")
        named = data is not None and data.kind in ("name", "call") and _is_plain(call)
        for made in _loaded(reading, data, call) if data is not None and named else ():
            whole = made is not None and made.name == "datasets.load_dataset"
            if whole and made is not None and not made.unpacked and not (
                "split" in made.keywords or len(made.args) > 4
            ):  # fmt: skip
                message = "load_dataset() without split returns all splits: train_dataset is one"
                yield Match(call.span, message, fix='Pass dataset["train"].')


def _is_plain(trainer: Call) -> bool:
    """All that it gets is written out."""
    known = trainer.name in ("transformers.Trainer", "transformers.Seq2SeqTrainer")
    return known and not trainer.unpacked


def _takes(reading: Training, trainer: Call, call: Call) -> bool:
    """These are the trainer's settings, or which it has is unknown."""
    given = trainer.keywords.get("args")
    options = evaluate.options(reading, given, trainer)
    made = reading.calls_of(options)
    return not made or len(made) < len(options) or call in made
