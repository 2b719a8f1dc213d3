"""What the files of a model show beside its steps: layers left out, weights, tokenizer."""

from __future__ import annotations

from dataclasses import replace

from doctor._util.units import listed
from doctor.checks.training import smoke as judged
from doctor.checks.training.errors.data import prefix_of
from doctor.errors.causes import BY_ID
from doctor.facts.cut_depth import may_be_the_cut
from doctor.facts.own_model import OwnModel, PartialLoad
from doctor.judge.check import Status, Verdict, note, warn

MOST_NAMES = 4


def undecided_by_the_cut(own: OwnModel) -> str:
    """Why a failure with fewer layers than the model has is not judged; "" if it is."""
    if not may_be_the_cut(own):
        return ""
    if not own.built.ok:
        what = f"could not be built: {own.built.detail}"
    elif own.smoke and not own.smoke.completed:
        what = judged.ended(own.smoke)
    else:
        return ""
    return f"{what}, {of_layers(own)}"


def of_layers(own: OwnModel) -> str:
    """That fewer layers were built, and how to try more."""
    return (
        f"with {own.layers} of {own.all_layers} layers; whether that is so with all of them is not "
        f"known: try more with --layers {2 * (own.layers or 1)}, or a factory with --model"
    )


def with_files(own: OwnModel, verdict: Verdict) -> Verdict:
    """The verdict on steps that completed; a warning if the directory's parts do not fit."""
    if verdict.status is not Status.PASS:
        return verdict
    if own.failed_depths:
        fewer = ", ".join(map(str, own.failed_depths))
        text = f"{verdict.summary}; with {fewer} layers, as the doctor cuts, it fails"
        verdict = replace(verdict, summary=text)
    judges = (_tokenizer, _initialized, _quantized, _not_loaded, _in_evaluation)
    observed = next((found for judge in judges if (found := judge(own))), None)
    if observed is not None:
        text, fix = observed
        return warn(f"{verdict.summary}; {text}", fix=fix)
    if own.turned_off:
        return note(f"{verdict.summary}; {TURNED_OFF % own.turned_off}", fix=TURNED_OFF_FIX)
    return verdict


def _tokenizer(own: OwnModel) -> tuple[str, str] | None:
    if not own.outside_tokens:
        return None
    return (
        f"{own.outside_tokens} tokens of the directory's tokenizer are outside of the model's "
        f"{own.vocabulary}; required: 0",
        BY_ID["token-beyond-embedding"].fix,
    )


def _initialized(own: OwnModel) -> tuple[str, str] | None:
    if not own.initialized:
        return None
    names = listed(list(own.initialized), MOST_NAMES)
    return (
        f"the weights of the directory lack {len(own.initialized)} parameters, which start at "
        f"random: {names}; required: all of them, but for a head that is new",
        BY_ID["weights-not-in-the-files"].fix,
    )


def _quantized(own: OwnModel) -> tuple[str, str] | None:
    adapters = any("lora_" in each.name for each in (own.smoke.parameters if own.smoke else ()))
    if not own.quantization or adapters:
        return None
    return (
        f"config.json quantizes the weights ({own.quantization}), and the steps were run without "
        "that; required: adapters for quantized weights",
        QUANTIZED_FIX,
    )


def _not_loaded(own: OwnModel) -> tuple[str, str] | None:
    """Weights that load_state_dict(strict=False) left out without a word: all of them, or those
    whose names differ by what stands in front."""
    for each in own.partial_loads:
        related = [name for name in each.missing if _is_named_alike(name, each.unexpected)]
        if each.unused < each.given and 2 * len(related) < max(8, len(each.missing)):
            continue
        ours, theirs = listed(list(each.missing), 2), listed(list(each.unexpected), 2) or "nothing"
        return (
            f"load_state_dict(strict=False) left out {each.unused} of {each.given} values, whose "
            f"keys the model does not have: it has {ours} and got {theirs}; required: the weights "
            "are loaded",
            _renamed(each),
        )
    return None


def _in_evaluation(own: OwnModel) -> tuple[str, str] | None:
    if not own.in_evaluation:
        return None
    return (
        "the factory returns the model in evaluation mode, and its file calls train() nowhere: "
        f"{own.in_evaluation} would not act as in training; the doctor called train()",
        "Call model.train() before the training, and at the start of each epoch: after eval() "
        "nothing drops values, and batch norms neither use nor update the statistics of a batch.",
    )


def _is_named_alike(name: str, others: tuple[str, ...]) -> bool:
    return any(name.endswith(f".{each}") or each.endswith(f".{name}") for each in others)


def _renamed(load: PartialLoad) -> str:
    if prefix := prefix_of(load.unexpected, load.missing):
        return NOT_LOADED_FIX.format(f"key.removeprefix('{prefix}')")
    if prefix := prefix_of(load.missing, load.unexpected):
        return NOT_LOADED_FIX.format(f"'{prefix}' + key")
    return NOT_LOADED_FIX.format("NEW_KEY")


TURNED_OFF = (
    "the loss calls eval() of the model before the forward pass that trains: %s do not act as in "
    "training"
)
TURNED_OFF_FIX = (
    "If that is not on purpose, call model.train() again where the evaluation ends, or evaluate "
    "outside of the step: after eval() nothing drops values, and batch norms neither use nor "
    "update the statistics of a batch."
)
NOT_LOADED_FIX = (
    "Rename the keys, and print what strict=False leaves out, or load with strict=True:\n"
    "state = {{{}: value for key, value in state.items()}}\n"
    "print(model.load_state_dict(state, strict=False))"
)
QUANTIZED_FIX = (
    "Train adapters on the quantized weights, as transformers requires:\n"
    "doctor run --hf DIRECTORY --lora 16\n"
    "To train all parameters, start from weights in bf16 or fp32 and remove quantization_config."
)
