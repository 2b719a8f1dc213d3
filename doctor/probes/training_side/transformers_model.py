"""A local transformers model folder as a training: random weights, or its own; LoRA on top.

Imported by subjects.py; transformers and peft are imported inside the functions. Nothing is
downloaded, no code of the folder runs, and no pickle is read.
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
    """The folder cannot be trained; the text says why."""


class Beyond(Exception):
    """A model that the doctor does not build; that is no fault of the model."""


class Built(NamedTuple):
    """A model, and what was done to the folder's description of it."""

    model: Any
    kept: Optional[int]
    """Layers of the model as built, and in the folder; None where nothing tells them."""
    whole: Optional[int]


def make(spec: Dict[str, Any], device: torch.device, recipe: str, seed: Optional[int]) -> Any:
    """The subject of a model folder. Raises NotBuilt, Beyond, and what transformers and peft do."""
    built = base(spec, recipe)
    model = built.model
    tell(spec, built)
    if spec.get("lora"):
        model = with_lora(model, spec["lora"])
    with wire.stage("move the model to the device"):
        model = model.to(device)
    batch = batch_for(built.model, spec, SEED if seed is None else seed)
    return subjects.Subject(model, subjects.on_device(batch, device), subjects.called)


def tell(spec: Dict[str, Any], built: Built) -> None:
    """Note what was built of the folder, as OwnModel has it."""
    layers = "" if built.whole is None else "%s of %s layers, " % (built.kept, built.whole)
    weights = "its weights" if spec["weights"] else "random weights"
    tokenizer = tokenizer_of(spec["folder"])
    tokens = "random tokens" if tokenizer is None else "its tokenizer"
    fields = {
        "said": "%s (%s%s, %s)" % (spec["folder"], layers, weights, tokens),
        "whole": built.kept == built.whole,
        "pad_id": getattr(tokenizer, "pad_token_id", None),
    }
    wire.tell(note={"own": fields})


def usual_dtype(folder: str) -> torch.dtype:
    """What from_pretrained gives where no dtype is asked for: since transformers 5 the folder's."""
    transformers = imported()
    said = getattr(configuration(transformers, folder), "dtype", None)
    if int(transformers.__version__.split(".")[0]) < 5 or not isinstance(said, torch.dtype):
        return torch.float32
    return said


def base(spec: Dict[str, Any], recipe: str) -> Built:
    """The model on the CPU, all of it trainable."""
    transformers = imported()
    dtype = getattr(
        torch, spec.get("dtype") or ("bfloat16" if recipe == "pure-bf16" else "float32")
    )
    with wire.stage("read config.json"):
        whole = configuration(transformers, spec["folder"])
        config, kept, count = cut(whole, spec["layers"] or LAYERS, spec["weights"])
    with wire.stage("load the weights" if spec["weights"] else "draw random weights"):
        torch.manual_seed(SEED)
        said = {dtype_word(transformers): dtype}
        if spec["weights"]:
            model = _loaded(transformers, spec["folder"], config, said)
        else:
            model = _drawn(transformers, config, said)
    return Built(model, kept, count)


def imported() -> Any:
    """transformers, offline and quiet. Raises NotBuilt where it is not installed."""
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


def configuration(transformers: Any, folder: str) -> Any:
    if not os.path.isfile(os.path.join(folder, "config.json")):
        raise NotBuilt("%s has no config.json" % folder)
    try:
        return transformers.AutoConfig.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
    except Exception as error:
        if "trust_remote_code" not in str(error):
            raise
        raise Beyond(
            "the model is code in its own folder, which is not run: name a factory with --model"
        ) from error


def cut(config: Any, layers: int, weights: bool) -> Tuple[Any, Optional[int], Optional[int]]:
    """The configuration with fewer layers; how many are left, and of how many."""
    data = config.to_dict()
    if not weights:
        data.pop("quantization_config", None)
    counts: List[int] = []
    _cut(data, layers, counts)
    if not counts:
        return config, None, None
    return type(config).from_dict(data), min(layers, max(counts)), max(counts)


def _cut(data: Dict[str, Any], layers: int, counts: List[int]) -> None:
    """Cut this part of a configuration and the parts in it, and lists with an entry a layer."""
    here = {name: data[name] for name in COUNTS if isinstance(data.get(name), int)}
    counts.extend(here.values())
    for name, value in data.items():
        if name in here:
            data[name] = min(layers, value)
        elif isinstance(value, dict):
            _cut(value, layers, counts)
        elif isinstance(value, (list, tuple)) and len(value) in here.values():
            data[name] = value[:layers]


def dtype_word(transformers: Any) -> str:
    """The name of the dtype's argument: torch_dtype before transformers 4.56."""
    major, minor = (int(part) for part in transformers.__version__.split(".")[:2])
    return "dtype" if (major, minor) >= (4, 56) else "torch_dtype"


def _drawn(transformers: Any, config: Any, said: Dict[str, Any]) -> Any:
    maker = class_of(transformers, config)
    if maker is transformers.AutoModelForCausalLM:
        return maker.from_config(config, trust_remote_code=False, **said)
    return maker._from_config(config, **said)


def _loaded(transformers: Any, folder: str, config: Any, said: Dict[str, Any]) -> Any:
    if not any(name.endswith(".safetensors") for name in os.listdir(folder)):
        raise Beyond(
            "%s has no .safetensors file, and pickled weights are not loaded, because they can "
            "run code: save them once with save_pretrained, or leave --weights out" % folder
        )
    return class_of(transformers, config).from_pretrained(
        folder, config=config, use_safetensors=True, local_files_only=True, **said
    )


def class_of(transformers: Any, config: Any) -> Any:
    """The class that config.json names, if it computes a loss; else the causal language model."""
    for name in getattr(config, "architectures", None) or ():
        found = getattr(transformers, name, None)
        forward = getattr(found, "forward", None)
        if forward is not None and "labels" in inspect.signature(forward).parameters:
            return found
    if type(config) in transformers.AutoModelForCausalLM._model_mapping:
        return transformers.AutoModelForCausalLM
    raise Beyond(
        "transformers %s has no causal language model for %s, nor does config.json name a class "
        "that computes a loss in `architectures`: name a factory with --model"
        % (transformers.__version__, type(config).__name__)
    )


def with_lora(model: Any, rank: int, *, save: Optional[List[str]] = None) -> Any:
    """LoRA adapters on the modules that peft picks itself, or on all linear ones."""
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
    """Tokens with labels: of the folder's tokenizer where it has one, else random ones."""
    config = model.config
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    vocabulary = getattr(text, "vocab_size", None)
    if not isinstance(vocabulary, int):
        raise Beyond(
            "the model does not work on tokens (no vocab_size): name a factory with --model"
        )
    length = spec["length"] or min(64, getattr(text, "max_position_embeddings", None) or 64)
    tokens = tokenized(spec["folder"], spec["batch"], length, seed)
    if tokens is None:
        tokens = subjects.random_tokens(vocabulary, spec["batch"], length, seed)
    labels = tokens.clone()
    kinds = getattr(config, "num_labels", 2)
    if type(model).__name__.endswith("ForSequenceClassification"):
        labels = subjects.random_tokens(kinds, spec["batch"], 1, seed)[:, 0]
    elif type(model).__name__.endswith("ForTokenClassification"):
        labels = subjects.random_tokens(kinds, spec["batch"], length, seed)
    return {"input_ids": tokens, "labels": labels}


def tokenized(folder: str, batch: int, length: int, seed: int) -> Optional[torch.Tensor]:
    """A text in the folder's own tokens; None without a tokenizer that can be loaded."""
    tokenizer = tokenizer_of(folder)
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


def tokenizer_of(folder: str) -> Any:
    """The folder's tokenizer, None where it has none or it cannot be loaded."""
    files = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
    if not any(os.path.isfile(os.path.join(folder, name)) for name in files):
        return None
    with wire.stage("load the tokenizer"):
        try:
            import transformers

            return transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        except Exception:
            return None
