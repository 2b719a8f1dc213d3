"""A batch for a transformers model, from the arguments of its forward pass and its configuration.

What the doctor cannot make is Unsupported, never an error of the model: a batch of random values
that does not fit is a fault of the doctor.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List, Optional

import torch

from ... import wire
from ..foreign import Foreign, observing
from . import subjects, tokenizers_text
from .model_files import BadFiles
from .subjects import Unsupported

Batch = Dict[str, Any]
FACTORY = ": name a factory with --model"
AUDIO_SAMPLES = 8000
"""Half a second at 16 kHz."""
CHOICES = 2
MASKED = 0.15
"""Share of the tokens that a masked language model predicts."""
IMAGE_SIDE = 224
"""Pixels, where the configuration names no size."""
TOWERS = {
    "vision_config": ("pixel_values", "pixel_values_images"),
    "audio_config": ("input_features", "input_values"),
    "speech_config": ("input_features", "input_values"),
}  # fmt: skip
"""A part of the configuration -> the inputs of that part of the model."""


class BadLength(Exception):
    """--seq-len exceeds the positions that the model has."""


def batch_for(model: Foreign, spec: Dict[str, Any], seed: int) -> Batch:
    """Inputs and targets for the model. Raises Unsupported and BadLength."""
    torch.manual_seed(seed)
    names = list(inspect.signature(model.forward).parameters)
    main = getattr(model, "main_input_name", "input_ids")
    made = MAKERS.get(main)
    if made is None or main not in names:
        raise Unsupported("the doctor makes no %s for this model%s" % (main, FACTORY))
    batch: Batch = made(model, spec, names, seed)
    _require_towers(model.config, names, batch)
    batch.update(_targets(model, spec, names, batch, seed))
    return batch


def _require_towers(config: Foreign, names: List[str], batch: Batch) -> None:
    """Every part of the model must get its input, else its parameters get no gradient."""
    for part, inputs in TOWERS.items():
        wanted = [name for name in inputs if name in names]
        there = getattr(config, part, None) is not None
        if there and wanted and not any(name in batch for name in wanted):
            raise Unsupported("the doctor makes no %s for this model%s" % (wanted[0], FACTORY))


# Inputs


def _text(model: Foreign, spec: Dict[str, Any], names: List[str], seed: int) -> Batch:
    tokens = _tokens(model, spec, seed)
    if type(model).__name__.endswith("ForMultipleChoice"):
        return {"input_ids": tokens[:, None].repeat(1, CHOICES, 1)}
    if "pixel_values" not in names or observing.stated(model.config, "vision_config") is None:
        return {"input_ids": tokens}
    if "return_loss" in names:  # CLIP and its relatives compare texts with images
        return {"input_ids": tokens, "pixel_values": _pixels(model, spec), "return_loss": True}
    return _with_images(model, spec, names, tokens)


def _tokens(model: Foreign, spec: Dict[str, Any], seed: int) -> torch.Tensor:
    config = model.config
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    vocabulary = observing.stated(text, "vocab_size")
    if not isinstance(vocabulary, int):
        raise Unsupported("the model does not work on tokens (no vocab_size)" + FACTORY)
    table = observing.attempt(model.get_input_embeddings, None)  # of an encoder of its own
    vocabulary = min(vocabulary, observing.attribute(table, "num_embeddings", vocabulary))
    positions = observing.stated(text, "max_position_embeddings")
    learned = _learned_positions(model)
    usable = positions if learned is None else learned
    length = spec["length"] or min(64, usable or 64)
    if learned is not None and length > learned:
        raise BadLength(
            "--seq-len %d is more than the %d positions of the model" % (length, learned)
        )
    tokens = tokenizers_text.tokenized(spec["directory"], spec["batch"], length, seed)
    if tokens is not None and int(tokens.max()) >= vocabulary:
        raise BadFiles(
            "the tokenizer gives token %d, and the model has %d" % (int(tokens.max()), vocabulary)
        )
    if tokens is None:
        tokens = subjects.random_tokens(vocabulary, spec["batch"], length, seed)
    return _without_special(tokens, config, vocabulary)


def _learned_positions(model: Foreign) -> Optional[int]:
    """Positions of a learned table, without the rows before its padding; None: no such table."""
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if isinstance(module, torch.nn.Embedding) and (
            last in ("wpe", "position_embeddings", "embed_positions", "position_embedding")
        ):
            if "vision" in name or "visual" in name:
                continue
            padding = module.padding_idx
            offset = int(observing.stated(module, "offset") or 0)
            return int(module.num_embeddings) - (offset or (0 if padding is None else padding + 1))
    return None


def _without_special(tokens: torch.Tensor, config: Foreign, vocabulary: int) -> torch.Tensor:
    """No padding and no placeholder of an image: they mean something else than a token."""
    special = {
        getattr(config, name, None)
        for name in ("pad_token_id", "image_token_id", "image_token_index", "video_token_id",
                     "audio_token_id", "audio_token_index", "vision_start_token_id",
                     "vision_end_token_id", "boi_token_index", "eoi_token_index")
    }  # fmt: skip
    plain = next((each for each in range(3, vocabulary) if each not in special), 0)
    for each in special:
        if isinstance(each, int):
            tokens = torch.where(tokens == each, torch.tensor(plain), tokens)
    return tokens


def _pixels(model: Foreign, spec: Dict[str, Any]) -> torch.Tensor:
    config = observing.stated(model.config, "vision_config") or model.config
    size = observing.stated(config, "image_size") or IMAGE_SIDE
    if isinstance(size, dict):
        size = size.get("height", IMAGE_SIDE), size.get("width", IMAGE_SIDE)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    channels = observing.stated(config, "num_channels") or 3
    return torch.rand(spec["batch"], channels, height, width) * 2 - 1


def _features(model: Foreign, spec: Dict[str, Any], names: List[str], seed: int) -> Batch:
    """The mel spectrogram of Whisper's 30 seconds, or as long as its configuration says."""
    bins = observing.stated(model.config, "num_mel_bins")
    positions = observing.stated(model.config, "max_source_positions")
    if not bins or not positions:
        raise Unsupported("the doctor makes no input_features for this model" + FACTORY)
    return {"input_features": torch.randn(spec["batch"], bins, 2 * positions)}


def _waveform(model: Foreign, spec: Dict[str, Any], names: List[str], seed: int) -> Batch:
    if not hasattr(model.config, "conv_stride"):
        raise Unsupported("the doctor makes no input_values for this model" + FACTORY)
    return {"input_values": torch.randn(spec["batch"], AUDIO_SAMPLES)}


MAKERS: Dict[str, Callable[..., Batch]] = {
    "input_ids": _text,
    "pixel_values": lambda model, spec, *_: {"pixel_values": _pixels(model, spec)},
    "input_features": _features,
    "input_values": _waveform,
}  # fmt: skip
"""transformers' main_input_name -> its maker."""


def _with_images(
    model: Foreign, spec: Dict[str, Any], names: List[str], tokens: torch.Tensor
) -> Batch:
    """Tokens after the placeholders of one image per sample, as many as the model makes of it."""
    config = model.config
    placeholder = observing.stated(config, "image_token_id", "image_token_index")
    if placeholder is None:
        raise Unsupported("the doctor does not know the image token of this model" + FACTORY)
    try:
        batch = (
            _patches(model, spec)
            if "image_grid_thw" in names
            else {"pixel_values": _pixels(model, spec)}
        )
        with torch.no_grad():
            count = _count_features(model.get_image_features(**batch), spec["batch"])
    except Exception as error:
        raise Unsupported(
            "the doctor could not make an image for this model (%s)%s"
            % (wire.describe(error), FACTORY)
        ) from error
    image = torch.full((len(tokens), count), placeholder)
    batch["input_ids"] = torch.cat([image, tokens], 1)
    for name in {"token_type_ids", "mm_token_type_ids"}.intersection(names):
        batch[name] = (batch["input_ids"] == placeholder).long()
    return batch


def _patches(model: Foreign, spec: Dict[str, Any]) -> Batch:
    """Images of Qwen-VL: flat patches and a grid (time, height, width) per image."""
    vision = model.config.vision_config
    merge = observing.stated(vision, "spatial_merge_size") or 2
    side = 2 * merge
    channels = observing.stated(vision, "in_channels", "in_chans") or 3
    width = channels * (observing.stated(vision, "temporal_patch_size") or 2) * vision.patch_size**2
    grid = torch.tensor([[1, side, side]] * spec["batch"])
    pixels = torch.rand(spec["batch"] * side * side, width) * 2 - 1
    return {"pixel_values": pixels, "image_grid_thw": grid}


def _count_features(features: Foreign, images: int) -> int:
    """Tokens per image in what get_image_features returned, in the forms of its versions."""
    features = getattr(features, "pooler_output", features)
    if isinstance(features, (list, tuple)):
        first = features[0]
        if isinstance(first, torch.Tensor) and len(features) == images:
            return int(first.reshape(-1, first.shape[-1]).shape[0])
        features = first
    return int(features.reshape(-1, features.shape[-1]).shape[0]) // images


# Targets


def _targets(
    model: Foreign, spec: Dict[str, Any], names: List[str], batch: Batch, seed: int
) -> Batch:
    count, config = spec["batch"], model.config
    if "return_loss" in batch:
        return {}
    if "start_positions" in names:
        length = batch["input_ids"].shape[1]
        points = {"start_positions": 1 % length, "end_positions": 2 % length}
        return {name: torch.full((count,), at) for name, at in points.items()}
    if "labels" not in names:
        raise Unsupported("the forward pass has no labels, so it computes no loss" + FACTORY)
    kind = type(model).__name__
    if kind.endswith("ForMultipleChoice"):
        return {"labels": torch.arange(count) % CHOICES}
    if kind.endswith(CLASSIFIES_SAMPLES):
        return {"labels": _sample_labels(config, count, seed)}
    if kind.endswith("ForTokenClassification"):
        shape = (count, batch["input_ids"].shape[1])
        return {"labels": subjects.random_tokens(_classes(config), *shape, seed)}
    if "input_ids" not in batch:
        return _sequence_labels(model, spec, seed)
    return _token_labels(kind, names, batch)


CLASSIFIES_SAMPLES = (
    "ForSequenceClassification", "ForImageClassification", "ForAudioClassification",
    "ForVideoClassification",
)  # fmt: skip


def _classes(config: Foreign) -> int:
    return int(observing.stated(config, "num_labels") or 2)


def _sample_labels(config: Foreign, count: int, seed: int) -> torch.Tensor:
    """One class per sample, or a vector or a number, by the configuration's problem_type."""
    classes, problem = _classes(config), observing.stated(config, "problem_type")
    if problem == "multi_label_classification":
        return (subjects.random_tokens(2, count, classes, seed)).float()
    if problem == "regression" or (problem is None and classes == 1):
        return torch.randn(count) if classes == 1 else torch.randn(count, classes)
    return subjects.random_tokens(classes, count, 1, seed)[:, 0]


def _sequence_labels(model: Foreign, spec: Dict[str, Any], seed: int) -> Batch:
    """Text for audio (Whisper, CTC) or images."""
    kind, vocabulary = type(model).__name__, observing.stated(model.config, "vocab_size")
    transcribes = kind.endswith(("ForCTC", "ForConditionalGeneration", "EncoderDecoderModel"))
    if not transcribes or not isinstance(vocabulary, int):
        raise Unsupported("the doctor makes no labels for %s%s" % (kind, FACTORY))
    labels = subjects.random_tokens(vocabulary, spec["batch"], 8, seed)
    blank = observing.stated(model.config, "pad_token_id")
    if isinstance(blank, int):
        labels = torch.where(labels == blank, torch.tensor((blank + 1) % vocabulary), labels)
    return {"labels": labels}


def _token_labels(kind: str, names: List[str], batch: Batch) -> Batch:
    labels = batch["input_ids"].clone()
    for name in ("token_type_ids", "mm_token_type_ids"):
        if name in batch:
            labels[batch[name] == 1] = -100
    targets: Batch = {"labels": labels}
    if kind.endswith("ForMaskedLM"):
        hidden = torch.rand(labels.shape) < MASKED
        hidden[:, 0] = True
        targets["labels"] = torch.where(hidden, labels, torch.tensor(-100))
    for name in {"next_sentence_label", "sentence_order_label"}.intersection(names):
        targets[name] = torch.arange(len(labels)) % 2
    return targets
