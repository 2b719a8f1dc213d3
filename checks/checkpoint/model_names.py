"""Tensors that from_pretrained cannot load as the model that config.json describes."""

from __future__ import annotations

from doctor._util.units import counted, listed, shown
from doctor.checkpoint.records import Checkpoint, Quantization
from doctor.judge.check import Verdict, fail, note, warn

NEEDS_FORM = frozenset(("gptq", "awq", "fp8", "fbgemm_fp8", "bitsandbytes"))
"""quant_method of loaders that read nothing but weights in their own form."""


def unloadable(checkpoint: Checkpoint) -> Verdict | None:
    """Tensors that loading does not take, or makes up; None where it takes all."""
    model = checkpoint.model
    if 4 * model.empty_tensors >= checkpoint.contents.tensors:
        text = f"{model.empty_tensors:,} of {checkpoint.contents.tensors:,} tensors hold no value"
        return fail(f"{text}, as the parameters that ZeRO-3 has divided", fix=GATHER_FIX)
    if model.wrapper:
        return _wrapped(checkpoint)
    if model.partly.endswith(".") and model.partly_wrapped < checkpoint.contents.tensors:
        return _partly_wrapped(checkpoint)
    if model.quantization and (verdict := _quantized(model.quantization)):
        return verdict
    return None


def _partly_wrapped(checkpoint: Checkpoint) -> Verdict:
    model, lead = checkpoint.model, checkpoint.model.partly
    text = f"{model.partly_wrapped:,} of {checkpoint.contents.tensors:,} names begin with '{lead}'"
    return warn(
        f"{text}, such as {model.partly_example}, and those of the layers next to them do not",
        fix=PARTLY_FIX.format(lead),
    )


def wrapped_by_own(checkpoint: Checkpoint) -> Verdict | None:
    """What a wrapper put into names, which programs of one's own may take off again."""
    model, count = checkpoint.model, checkpoint.model.partly_wrapped
    if not (lead := model.partly):
        return None
    if lead == FLAT:
        text = f"{counted(count, 'tensor')} are FSDP's {FLAT}, the part of one rank"
        return note(f"{text}, such as {model.partly_example}", fix=RANK_FIX)
    begins = lead.endswith(".")
    names = f"every name begins with '{lead}'" if begins else f"'{lead}.' is in {count:,} names"
    text = f"{names}, as a wrapper puts it there: load_state_dict of the plain model fails"
    call = f"removeprefix('{lead}')" if begins else f"replace('{lead}.', '')"
    return note(text, fix=OWN_FIX.format(call))


def other_tensors(checkpoint: Checkpoint) -> Verdict | None:
    """Tensors that the model of config.json has and the files do not, or the other way round."""
    model = checkpoint.model
    kind = shown(model.model_type or "", 40)
    if model.missing:
        text = f"no file holds {counted(model.missing_count, 'tensor')} of a {kind} model"
        return fail(f"{text}: {listed(list(model.missing), 3)}", fix=MISSING_FIX)
    if model.ignored:
        text = f"a {kind} model has no place for {counted(model.ignored_count, 'tensor')}"
        return warn(f"{text}: {listed(list(model.ignored), 3)}", fix=IGNORED_FIX)
    if model.lacks_config:
        text = "config.json is missing: from_pretrained cannot build the model of these weights"
        return warn(text, fix=NO_CONFIG_FIX)
    if model.lacks_embedding:
        text = "no tensor is token_embd.weight, and the header has layers and a vocabulary"
        return fail(f"{text}: llama.cpp refuses the file", fix=CONVERT_FIX)
    return None


OF_PEFT = ("peft-345",)


def _wrapped(checkpoint: Checkpoint) -> Verdict:
    model = checkpoint.model
    wrapper = shown(model.wrapper, 100)
    if wrapper == FLAT:
        text = f"{counted(model.wrapped, 'tensor')} are FSDP's {FLAT}, the part of one rank"
        return fail(f"{text}; the weights under their own names required", fix=FLAT_FIX)
    if model.wrapped < checkpoint.contents.tensors:
        text = f"{model.wrapped:,} of {checkpoint.contents.tensors:,} names have {wrapper} in them"
    else:
        text = f"every name begins with {wrapper}"
    of_peft = model.wrapper in ("base_model.model.", "base_layer.")
    fix = PEFT_FIX if of_peft else WRAPPER_FIX
    if not model.model_type:
        text = (
            f"{text}, as in peft's wrapper, and neither config.json nor adapter_config.json is here"
        )
        return warn(f"{text}: from_pretrained loads nothing", fix=WHOLE_FIX, sources=OF_PEFT)
    return fail(f"{text}, which a wrapper put there; the names of the model required", fix=fix)


def _quantized(found: Quantization) -> Verdict | None:
    """Quantized weights without scales, or that config.json does not describe."""
    if found.unscaled:
        text = f"{found.unscaled_count:,} of {found.packed:,} quantized weights have no scales"
        return fail(f"{text}: {listed(list(found.unscaled), 3)}", fix=SCALES_FIX)
    if found.packed and not found.described:
        text = f"{found.packed:,} weights are quantized, such as {shown(found.example, 120)}"
        return fail(f"{text}, and config.json has no quantization_config", fix=DESCRIBED_FIX)
    if not found.packed and found.method in NEEDS_FORM:
        text = f"config.json says that the weights are quantized by {found.method}, and none is"
        return fail(text, fix=PLAIN_FIX)
    return None


NO_CONFIG_FIX = (
    "Copy config.json from the model that the run began with, or save it with "
    "model.config.save_pretrained."
)
WRAPPER_FIX = (
    "Save the model inside of the wrapper (model.module of DistributedDataParallel, "
    "model._orig_mod of torch.compile, the attribute of your own module), or rename the tensors, "
    "name.replace(prefix, ''): from_pretrained finds no weight of these names, and begins with "
    "random ones."
)
PARTLY_FIX = (
    "If the model has a part of this name, nothing is wrong. If not, give all names one form: "
    "{{name.removeprefix('{0}'): t for name, t in state.items()}}, and look at how the state was "
    "put together: with strict=False the layers stay as they were initialized."
)
OWN_FIX = (
    "Save the state of the model inside of the wrapper (model.module of DataParallel and "
    "DistributedDataParallel, model._orig_mod of torch.compile), or take this part out of the "
    "names when loading: {{name.{0}: t for name, t in state.items()}}. Where the program that "
    "loads it does so, or wraps its model in the same way, nothing is wrong."
)
FLAT = "_flat_param"
FLAT_FIX = (
    "Save again from all ranks with the whole state_dict: get_model_state_dict with "
    "StateDictOptions(full_state_dict=True), accelerator.get_state_dict(model), or "
    "fsdp_state_dict_type FULL_STATE_DICT with trainer.save_model. This file alone cannot be "
    "loaded: the parts of the other ranks, and the places of the weights in it, are not in it."
)
RANK_FIX = (
    "To resume with the program and the number of processes that wrote it, nothing is wrong. For "
    "anything else save the whole state_dict from all ranks, get_model_state_dict with "
    "StateDictOptions(full_state_dict=True): no plain model has a tensor of this name."
)
PEFT_FIX = (
    "Save the adapter with PeftModel.save_pretrained, or the merged model: merge_and_unload(), "
    "then save_pretrained. from_pretrained finds no weight of these names, and begins with random "
    "ones."
)
WHOLE_FIX = (
    "In the program that trained it, load it again and call model.save_pretrained(directory), "
    "which writes the adapter and adapter_config.json; for checkpoints, save that in a callback. "
    "Where only this program resumes from it, nothing is wrong."
)
CONVERT_FIX = (
    "Convert the whole model again: merge an adapter into its base and save both the weights and "
    "config.json before convert_hf_to_gguf.py; an adapter alone is for convert_lora_to_gguf.py."
)
GATHER_FIX = (
    "Save again with stage3_gather_16bit_weights_on_model_save, in a loop of your own with "
    "engine.save_16bit_model or accelerator.get_state_dict(model), called on all ranks. Or make "
    "the weights from the checkpoint of DeepSpeed with its zero_to_fp32.py."
)
MISSING_FIX = (
    "Where config.json is that of another model, take the one of these weights. Otherwise convert "
    "or save the model again with these tensors, from where it came: from_pretrained makes up what "
    "the files lack, with no more than a warning."
)
IGNORED_FIX = (
    "Take config.json (model_type, architectures, attention_bias) from the model that the weights "
    "are of: from_pretrained leaves these tensors out, and the model computes without them."
)
SCALES_FIX = (
    "Take the scales from the quantized checkpoint that these weights come from, or quantize the "
    "original again: without its scales a quantized weight is off by orders of magnitude."
)
DESCRIBED_FIX = (
    "Take quantization_config from the config.json of the quantized model: without it "
    "from_pretrained builds unquantized layers and finds no weights for them."
)
PLAIN_FIX = (
    "Remove quantization_config from config.json if these are the weights in full precision, or "
    "save the quantized ones."
)
