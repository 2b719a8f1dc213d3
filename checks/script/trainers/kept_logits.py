"""Logits of a whole evaluation that a Trainer keeps for its metric."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match
from doctor.checks.script.trainers.metric_functions import metric_functions
from doctor.checks.script.training import Training
from doctor.facts.script import Call

REDUCED = ("preprocess_logits_for_metrics", "eval_accumulation_steps", "batch_eval_metrics",
           "prediction_loss_only")  # fmt: skip
LONG = 256
"""Tokens of a row from which a vocabulary of 32,000 takes 32 MB of fp32 each. Our own number."""


def logits_kept(reading: Training) -> Iterator[Match]:
    """argmax() in the compute_metrics of a causal model: logits of all rows are kept until then."""
    causal = any("CausalLM" in name for name in reading.model_names)
    if not causal or reading.mentions(*REDUCED) or reading.setting("prediction_loss_only")[0]:
        return
    if not any(_takes_classes(reading, scope) for scope in metric_functions(reading)):
        return
    for n in reading.trainers:
        call = reading.calls[n]
        plain = call.name in ("transformers.Trainer", "trl.SFTTrainer") and not call.unpacked
        if plain and "compute_metrics" in call.keywords and _is_long(reading):
            yield Match(
                call.span,
                "the Trainer keeps the logits of the whole evaluation for compute_metrics: rows x "
                "tokens x vocabulary",
                "warn",
                fix="Pass preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1).",
            )


def _takes_classes(reading: Training, scope: int) -> bool:
    """argmax(-1) over the predictions, which are logits as the model returns them."""
    return any(_is_over_vocabulary(reading, call) for call in reading.calls_in(scope)
               if call.method == "argmax")  # fmt: skip


def _is_over_vocabulary(reading: Training, call: Call) -> bool:
    library = call.name.startswith(("numpy.", "torch."))
    axis = call.args[1] if library and len(call.args) > 1 else None
    axis = axis or (call.args[0] if call.args and not library else None)
    axis = axis or call.keywords.get("axis") or call.keywords.get("dim")
    return axis is not None and axis.literal in (-1, 2)


def _is_long(reading: Training) -> bool:
    """A length in the file of some hundred tokens: rows of a prompt with one label are short."""
    names = ("max_length", "max_seq_length", "block_size", "block", "seq_len", "max_len")
    found = [v for c in reading.calls for k, v in c.keywords.items() if k in names]
    options = [o.literal for v in found for o in flatten([v])]
    options += [each.value.literal for each in reading.assignments
                if each.target.casefold().rpartition(".")[2] in names]  # fmt: skip
    fields = [v.literal for c in reading.script.classes for k, v in c.fields.items() if k in names]
    flags = [evaluate.flag_default(reading, f"args.{name}") for name in names]
    known = (*options, *fields, *flags)
    return any(isinstance(n, int | float) and n >= LONG for n in known)
