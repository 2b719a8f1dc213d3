"""A local transformers model directory as a subject: random or its own weights, LoRA optional.

Imported by subjects.py; transformers and peft are imported inside the functions. Nothing is
downloaded, no code of the directory runs, and no pickle is read.
"""

from __future__ import annotations

import inspect
import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
import wire

subjects = wire.sibling("subjects")

LAYERS = 2
SEED = 21
COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers",
          "decoder_layers")  # fmt: skip
"""What configurations call the number of layers."""
TEXT = (
    "A training step is repeated on this text until it is long enough. It tells nothing, "
    "and its words are there to be counted: one, two, three, four, five, six, seven. "
)


class NotBuilt(Exception):
    """The directory cannot be trained; the message says why."""


class Unsupported(Exception):
    """The doctor does not support this kind of model, which is no error of the model."""


class Built(NamedTuple):
    """A model, and how many of its layers were built."""

    model: Any
    layers: Optional[int]
    """Layers as built, and according to the directory; None if unknown."""
    all_layers: Optional[int]


def make(spec: Dict[str, Any], device: torch.device, recipe: str, seed: Optional[int]) -> Any:
    """The subject of a model directory. Raises NotBuilt, Unsupported, and errors of libraries."""
    built = base(spec, recipe)
    model = built.model
    note_built(spec, built)
    if spec.get("lora"):
        model = with_lora(model, spec["lora"])
    with wire.stage("move the model to the device"):
        model = model.to(device)
    batch = batch_for(built.model, spec, SEED if seed is None else seed)
    return subjects.Subject(model, subjects.on_device(batch, device), subjects.model_loss)


def note_built(spec: Dict[str, Any], built: Built) -> None:
    """Note what was built from the directory, as fields of OwnModel."""
    layers = ""
    if built.all_layers is not None:
        layers = "%s of %s layers, " % (built.layers, built.all_layers)
    weights = "its weights" if spec["weights"] else "random weights"
    tokenizer = tokenizer_of(spec["directory"])
    tokens = "random tokens" if tokenizer is None else "its tokenizer"
    fields = {
        "said": "%s (%s%s, %s)" % (spec["directory"], layers, weights, tokens),
        "whole": built.layers == built.all_layers,
        "pad_id": getattr(tokenizer, "pad_token_id", None),
    }
    wire.send(note={"own": fields})


def usual_dtype(directory: str) -> torch.dtype:
    """The default dtype of from_pretrained: since transformers 5 that of config.json."""
    transformers = imported()
    dtype = getattr(configuration(transformers, directory), "dtype", None)
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
        whole = configuration(transformers, spec["directory"])
        config, layers, count = cut(whole, spec["layers"] or LAYERS, spec["weights"])
    with wire.stage("load the weights" if spec["weights"] else "draw random weights"):
        torch.manual_seed(SEED)
        dtype_argument = {dtype_keyword(transformers): dtype}
        if spec["weights"]:
            model = _loaded(transformers, spec["directory"], config, dtype_argument)
        else:
            model = _initialized(transformers, config, dtype_argument)
    return Built(model, layers, count)


def imported() -> Any:
    """transformers, offline and quiet. Raises NotBuilt if it is not installed."""
    os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    with wire.stage("import transformers"):
        try:
            import transformers
        except ModuleNotFoundError as error:
            if error.name != "transformers":
                raise
            raise NotBuilt("transformers is not installed in this interpreter") from None
    return transformers


def configuration(transformers: Any, directory: str) -> Any:
    if not os.path.isfile(os.path.join(directory, "config.json")):
        raise NotBuilt("%s has no config.json" % directory)
    try:
        return transformers.AutoConfig.from_pretrained(
            directory, trust_remote_code=False, local_files_only=True
        )
    except Exception as error:
        if "trust_remote_code" not in str(error):
            raise
        raise Unsupported(
            "the model needs code from its directory, which is not run: name a factory with --model"
        ) from error


def cut(config: Any, layers: int, weights: bool) -> Tuple[Any, Optional[int], Optional[int]]:
    """The configuration with fewer layers; the number of layers after and before."""
    data = config.to_dict()
    if not weights:
        data.pop("quantization_config", None)
    counts: List[int] = []
    _cut(data, layers, counts)
    if not counts:
        return config, None, None
    return type(config).from_dict(data), min(layers, max(counts)), max(counts)


def _cut(data: Dict[str, Any], layers: int, counts: List[int]) -> None:
    """Cut this part of a configuration, its nested parts, and lists with one entry per layer."""
    own_counts = {name: data[name] for name in COUNTS if isinstance(data.get(name), int)}
    counts.extend(own_counts.values())
    for name, value in data.items():
        if name in own_counts:
            data[name] = min(layers, value)
        elif isinstance(value, dict):
            _cut(value, layers, counts)
        elif isinstance(value, (list, tuple)) and len(value) in own_counts.values():
            data[name] = value[:layers]


def dtype_keyword(transformers: Any) -> str:
    """The name of the dtype's argument: torch_dtype before transformers 4.56."""
    major, minor = (int(part) for part in transformers.__version__.split(".")[:2])
    return "dtype" if (major, minor) >= (4, 56) else "torch_dtype"


def _initialized(transformers: Any, config: Any, dtype_argument: Dict[str, Any]) -> Any:
    model_class = class_of(transformers, config)
    if model_class is transformers.AutoModelForCausalLM:
        return model_class.from_config(config, trust_remote_code=False, **dtype_argument)
    return model_class._from_config(config, **dtype_argument)


def _loaded(transformers: Any, directory: str, config: Any, dtype_argument: Dict[str, Any]) -> Any:
    if not any(name.endswith(".safetensors") for name in os.listdir(directory)):
        raise Unsupported(
            "%s has no .safetensors file, and pickled weights are not loaded, because they can "
            "run code: save them once with save_pretrained, or omit --weights" % directory
        )
    return class_of(transformers, config).from_pretrained(
        directory, config=config, use_safetensors=True, local_files_only=True, **dtype_argument
    )


def class_of(transformers: Any, config: Any) -> Any:
    """The class that config.json names, if it computes a loss; else the causal language model."""
    for name in getattr(config, "architectures", None) or ():
        candidate = getattr(transformers, name, None)
        forward = getattr(candidate, "forward", None)
        if forward is not None and "labels" in inspect.signature(forward).parameters:
            return candidate
    if type(config) in transformers.AutoModelForCausalLM._model_mapping:
        return transformers.AutoModelForCausalLM
    raise Unsupported(
        "transformers %s has no causal language model for %s, nor does config.json name a class "
        "that computes a loss in `architectures`: name a factory with --model"
        % (transformers.__version__, type(config).__name__)
    )


def with_lora(model: Any, rank: int, *, save: Optional[List[str]] = None) -> Any:
    """LoRA adapters on the modules that peft selects, or on all linear ones."""
    with wire.stage("import peft"):
        try:
            import peft
        except ModuleNotFoundError as error:
            if error.name != "peft":
                raise
            raise NotBuilt("peft is not installed in this interpreter") from None
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
            return peft.get_peft_model(
                model, peft.LoraConfig(target_modules="all-linear", **fields)
            )


def batch_for(model: Any, spec: Dict[str, Any], seed: int) -> Dict[str, torch.Tensor]:
    """Tokens with labels: from the directory's tokenizer if it has one, else random."""
    config = model.config
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    vocabulary = getattr(text, "vocab_size", None)
    if not isinstance(vocabulary, int):
        raise Unsupported(
            "the model does not work on tokens (no vocab_size): name a factory with --model"
        )
    length = spec["length"] or min(64, getattr(text, "max_position_embeddings", None) or 64)
    tokens = tokenized(spec["directory"], spec["batch"], length, seed)
    if tokens is None:
        tokens = subjects.random_tokens(vocabulary, spec["batch"], length, seed)
    labels = tokens.clone()
    kinds = getattr(config, "num_labels", 2)
    if type(model).__name__.endswith("ForSequenceClassification"):
        labels = subjects.random_tokens(kinds, spec["batch"], 1, seed)[:, 0]
    elif type(model).__name__.endswith("ForTokenClassification"):
        labels = subjects.random_tokens(kinds, spec["batch"], length, seed)
    return {"input_ids": tokens, "labels": labels}


def tokenized(directory: str, batch: int, length: int, seed: int) -> Optional[torch.Tensor]:
    """A text in the directory's own tokens; None if no tokenizer can be loaded."""
    tokenizer = tokenizer_of(directory)
    if tokenizer is None:
        return None
    with wire.stage("tokenize a text"):
        rows = []
        for row in range(batch):
            at = (seed + 7 * row) % len(TEXT)
            text, copies = TEXT[at:] + TEXT[:at], 1
            tokens: List[int] = []
            while len(tokens) < length and copies <= 64 * length:
                tokens, copies = tokenizer(text * copies)["input_ids"], 2 * copies
            rows.append(tokens[:length])
        if any(len(row) < length for row in rows):
            return None
        return torch.tensor(rows, dtype=torch.long, device="cpu")


def tokenizer_of(directory: str) -> Any:
    """The directory's tokenizer, None if it has none or it cannot be loaded."""
    files = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
    if not any(os.path.isfile(os.path.join(directory, name)) for name in files):
        return None
    with wire.stage("load the tokenizer"):
        try:
            import transformers

            return transformers.AutoTokenizer.from_pretrained(
                directory, local_files_only=True, trust_remote_code=False
            )
        except Exception:
            return None
