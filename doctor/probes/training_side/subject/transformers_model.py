"""A local transformers model directory as a subject: random or its own weights, LoRA optional.

Transformers and peft are imported inside the functions. Nothing is downloaded, no code of the
directory runs, and no pickle is read.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from ... import wire
from ..foreign import Foreign, containers, observing
from . import (
    config_sizes,
    layer_cut,
    model_files,
    subjects,
    tokenizers_text,
    training_step,
    transformers_batch,
)
from .subjects import Unsupported
from .transformers_batch import batch_for
from .transformers_library import (
    NotBuilt,
    class_of,
    configuration,
    dtype_keyword,
    imported,
    required,
)

LAYERS = 2
SEED = 21


class Built(NamedTuple):
    """A model, and how many of its layers were built."""

    model: Any
    layers: Optional[int]
    """Layers as built, and according to the directory; None if unknown."""
    all_layers: Optional[int]
    renamed: bool = False
    """Another class than config.json names, which computes no loss."""
    own_code: bool = False
    """The directory has code for the model, which was not run."""
    left_out: bool = False
    """Its weights are quantized, and those of the model are not."""


def make(
    spec: Dict[str, Any], device: torch.device, recipe: str, seed: Optional[int]
) -> training_step.Subject:
    """The subject of a model directory. Raises NotBuilt, Unsupported, and errors of libraries."""
    built = base(spec, recipe)
    model = built.model
    try:
        batch = batch_for(built.model, spec, SEED if seed is None else seed)
    except transformers_batch.BadLength as error:
        raise NotBuilt(str(error)) from None
    note_built(spec, built, batch)
    if _rows(model) is None or any(name not in TEXT_INPUTS for name in batch):
        require_fit(model, batch, recipe)  # its form, or the range of its tokens, was inferred
    if recipe == "pure-bf16":
        batch = containers.mapped(batch, lambda x: x.bfloat16() if x.is_floating_point() else x)
    if spec.get("lora"):
        model = with_lora(model, spec["lora"])
    with wire.stage("move the model to the device"):
        model = model.to(device)
    return training_step.Subject(model, subjects.on_device(batch, device), subjects.model_loss)


def prepare(spec: Dict[str, Any]) -> None:
    """Import what `make` does. Raises what it raises."""
    transformers = imported()
    class_of(transformers, configuration(transformers, spec["directory"]))
    if spec["lora"]:
        required("peft")


TEXT_INPUTS = ("input_ids", "labels")


def require_fit(model: Foreign, batch: Foreign, recipe: str) -> None:
    """Raise Unsupported if a batch of the doctor's own does not fit the model."""
    dtype = next(model.parameters()).dtype
    fitted = containers.mapped(batch, lambda x: x.to(dtype) if x.is_floating_point() else x)
    with wire.stage("try the generated batch"):
        try:
            with torch.no_grad():
                subjects.model_loss(model, fitted)
        except Exception as error:
            raise Unsupported(
                "the batch that the doctor generated does not fit this model (%s): name a factory "
                "with --model" % wire.describe(error)
            ) from error


def note_built(spec: Dict[str, Any], built: Built, batch: Foreign) -> None:
    """Note what was built from the directory, as fields of OwnModel."""
    parts = [name_of_class(built.model)] if built.renamed else []
    if built.all_layers is not None:
        parts.append("%s of %s layers" % (built.layers, built.all_layers))
    if built.own_code:
        parts.append("as %s of transformers, without the directory's code"
                     % type(built.model).__name__)  # fmt: skip
    parts.append("its weights" if spec["weights"] else "random weights")
    if built.left_out:
        parts.append("quantization left out")
    tokenizer = tokenizers_text.tokenizer_of(spec["directory"])
    kinds = {"pixel_values": "images", "input_features": "audio", "input_values": "audio"}
    parts += ["random " + kind for name, kind in kinds.items() if name in batch]
    if "input_ids" in batch:
        parts.append("random tokens" if tokenizer is None else "its tokenizer")
        positions = observing.stated(built.model.config, "max_position_embeddings")
        length = batch["input_ids"].shape[-1]
        if isinstance(positions, int) and length > positions:
            parts.append("%d tokens for max_position_embeddings %d" % (length, positions))
    rows = _rows(built.model)
    fields = {
        "said": "%s (%s)" % (spec["directory"], ", ".join(parts)),
        "pad_id": observing.stated(tokenizer, "pad_token_id"),
        "outside_tokens": tokenizers_text.outside(tokenizer, rows) if rows else 0,
        "vocabulary": rows,
    }
    wire.send(note={"own": fields})


def _rows(model: Foreign) -> Optional[int]:
    """Tokens that the model has an embedding of; None if that is not known."""
    table = observing.attempt(model.get_input_embeddings, None)
    rows = observing.attribute(table, "num_embeddings")
    return rows if isinstance(rows, int) else None


def name_of_class(model: Foreign) -> str:
    named = ", ".join(observing.stated(model.config, "architectures") or ()) or "no class"
    return "trained as %s, config.json names %s" % (type(model).__name__, named)


def usual_dtype(directory: str) -> torch.dtype:
    """The default dtype of from_pretrained: since transformers 5 that of config.json."""
    transformers = imported()
    dtype = observing.stated(configuration(transformers, directory), "dtype")
    if int(transformers.__version__.split(".")[0]) < 5 or not isinstance(dtype, torch.dtype):
        return torch.float32
    return dtype


def base(spec: Dict[str, Any], recipe: str) -> Built:
    """The model on the CPU, all of it trainable."""
    transformers = imported()
    dtype = getattr(
        torch, spec.get("dtype") or ("bfloat16" if recipe == "pure-bf16" else "float32")
    )
    with wire.stage("read config.json"):
        written = model_files.require_config(spec["directory"], transformers)
        whole = configuration(transformers, spec["directory"])
        less = reduced(whole, spec["layers"] or LAYERS, spec["weights"])
    layers, count = less.layers, less.all_layers
    everything = count_all(transformers, whole) if layers != count else None
    note_depth(layers, count, everything)
    with wire.stage("cut the configuration"):
        config = type(whole).from_dict(less.data)
    quantization = _quantization(written)
    if spec["weights"]:
        model_files.require_whole(spec["directory"])
        if quantization:
            model_files.require_quantized(spec["directory"], quantization)
    with wire.stage("load the weights" if spec["weights"] else "draw random weights"):
        torch.manual_seed(SEED)
        dtype_argument = {dtype_keyword(transformers): dtype}
        if spec["weights"]:
            model, info = _loaded(transformers, spec["directory"], config, dtype_argument)
        else:
            model, info = _initialized(transformers, config, dtype_argument), {}
    named = observing.stated(whole, "architectures") or ()
    renamed = bool(named) and type(model).__name__ not in named
    lacking = model_files.require_loaded(
        model, info, renamed=renamed, fitting=lambda shapes: _fitting(transformers, config, shapes)
    )
    wire.send(note={"own": {"initialized": lacking, "quantization": quantization}})
    left_out = bool(quantization) and not spec["weights"]
    return Built(model, layers, count, renamed, "auto_map" in written, left_out)


def note_depth(layers: Optional[int], count: Optional[int], parameters: Optional[int]) -> None:
    """Note the depth before the model is built: an error of building may come from the cut."""
    fields = {"layers": layers, "all_layers": count, "whole": layers == count}
    wire.send(note={"own": {**fields, "all_parameters": parameters}})


def whole_error(spec: Dict[str, Any]) -> Optional[str]:
    """The error of the same model with all its layers, "" if it has none; None: not decided.

    It is built and run forward without memory, on the meta device.
    """
    transformers, meta = imported(), torch.device("meta")
    try:
        with wire.stage("build all layers without memory"):
            config = configuration(transformers, spec["directory"])
            with meta:
                model = _initialized(transformers, config, {})
    except Exception as error:
        return wire.describe(error)
    try:
        with wire.stage("run all layers without memory"):
            batch = batch_for(model, spec, SEED)
            subjects.model_loss(model, subjects.on_device(batch, meta))
    except NotImplementedError:
        return None
    except Exception as error:
        return None if "meta" in str(error) else wire.describe(error)
    return ""


def _quantization(written: Dict[str, Any]) -> str:
    """The method by which the weights of the directory are quantized, "" if they are not."""
    entry = written.get("quantization_config")
    return str(entry.get("quant_method", "quantized")) if isinstance(entry, dict) else ""


def _fitting(transformers: Foreign, config: Foreign, shapes: Foreign) -> str:
    with wire.stage("look for the size that fits the weights"), torch.device("meta"):
        return config_sizes.fitting(config, shapes, lambda c: _initialized(transformers, c, {}))


def count_all(transformers: Foreign, config: Foreign) -> Optional[int]:
    """Parameters of the model with all layers, built without memory; None if that fails."""
    try:
        with wire.stage("count the parameters"), torch.device("meta"):
            model = _initialized(transformers, config, {})
        return int(sum(weight.numel() for weight in model.parameters()))
    except Exception:
        return None


def reduced(config: Foreign, layers: int, weights: bool) -> layer_cut.Cut:
    """The fields of the configuration with fewer layers."""
    data = config.to_dict()
    if not weights:
        data.pop("quantization_config", None)
    less = layer_cut.cut(data, layers, in_order=weights)
    return less._replace(data=data) if less.layers == less.all_layers else less


def _initialized(transformers: Foreign, config: Foreign, dtype_argument: Dict[str, Any]) -> Foreign:
    model_class = class_of(transformers, config)
    if model_class is transformers.AutoModelForCausalLM:
        return model_class.from_config(config, trust_remote_code=False, **dtype_argument)
    return model_class._from_config(config, **dtype_argument)


def _loaded(
    transformers: Foreign, directory: str, config: Foreign, dtype_argument: Dict[str, Any]
) -> Tuple[Foreign, Dict[str, Any]]:
    """The model and what transformers reports about its loading, which it also prints."""
    if not any(name.endswith(".safetensors") for name in os.listdir(directory)):
        raise Unsupported(
            "%s has no .safetensors file, and pickled weights are not loaded, because they can "
            "run code: save them once with save_pretrained, or omit --weights" % directory
        )
    transformers.logging.set_verbosity_warning()
    try:
        model, info = class_of(transformers, config).from_pretrained(
            directory, config=config, use_safetensors=True, local_files_only=True,
            output_loading_info=True, ignore_mismatched_sizes=True, **dtype_argument
        )  # fmt: skip
    finally:
        transformers.logging.set_verbosity_error()
    return model, info


def with_lora(model: Foreign, rank: int, *, save: Optional[List[str]] = None) -> Foreign:
    """LoRA adapters on the modules that peft selects, or on all linear ones."""
    peft = required("peft")
    with wire.stage("add LoRA adapters"):
        torch.manual_seed(SEED)
        fields: Dict[str, Any] = {"r": rank, "modules_to_save": save}
        if type(model).__name__.endswith("ForCausalLM"):
            fields["task_type"] = "CAUSAL_LM"
        try:
            return peft.get_peft_model(model, peft.LoraConfig(**fields))
        except ValueError as error:
            if "target_modules" not in str(error):
                raise
        try:
            every = peft.LoraConfig(target_modules="all-linear", **fields)
            return peft.get_peft_model(model, every)
        except ValueError as error:
            raise Unsupported(
                "peft has no default modules for this architecture (%s): name a factory with "
                "--model that passes target_modules" % wire.describe(error)
            ) from error
