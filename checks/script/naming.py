"""What a name says: data for training or held out, predictions or truth, a metric's direction."""

from __future__ import annotations

import functools
import re

CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
NOUNS = "(?:set|data|loader|dataset|dataloader|ds|dl|iter|split|part|transforms?|x|y)?"
HELD_OUT = re.compile(rf"(?:val|valid|vali|validation|test|testing|eval|dev){NOUNS}\d*")
TRAINING = re.compile(rf"(?:train|training|trn){NOUNS}\d*")
LOADER = re.compile(r"(?:data)?(?:loader|iter|batches)s?|dl")
LOW = {
    "loss", "losses", "error", "err", "mae", "mse", "rmse", "ppl", "perplexity", "wer", "cer",
    "eer", "nll", "mape", "smape", "brier", "fid", "ece", "bpc", "rmsle", "logloss",
}  # fmt: skip
HIGH = {
    "acc", "accuracy", "f1", "auc", "auroc", "bleu", "rouge", "iou", "miou", "map", "precision",
    "recall", "dice", "psnr", "ssim", "pck", "ap", "ndcg", "mrr", "mcc", "auprc", "r2",
}  # fmt: skip
PREDICTED = {"pred", "preds", "prediction", "predictions", "predicted", "output", "outputs", "hat"}
TRUE = {"true", "target", "targets", "label", "labels", "gt", "truth", "reference", "references"}
DISTANCE = re.compile(r"dist(?!ill|rib)|energy|\bcdist|norm\(|square\(|pow\(|\babs\(")
"""In what computes a number that is small for what belongs together."""


@functools.lru_cache(maxsize=8192)
def words(name: str) -> tuple[str, ...]:
    """The words of the last part of a dotted name, also of valLoader."""
    last = name.rpartition(".")[2].replace("[", "_").rstrip("]")
    return tuple(word for word in CAMEL.sub("_", last).lower().split("_") if word)


def is_training(name: str) -> bool:
    return any(TRAINING.fullmatch(word) for word in words(name))


def is_held_out(name: str) -> bool:
    """For validation or test, and not for both that and training."""
    return any(HELD_OUT.fullmatch(word) for word in words(name)) and not is_training(name)


def is_loader(name: str) -> bool:
    return any(LOADER.fullmatch(word) or word.endswith("loader") for word in words(name))


def direction(name: str) -> int:
    """-1 for what should be low, 1 for what should be high, 0 where the name does not say it."""
    found = set(words(name))
    return bool(found & HIGH) - bool(found & LOW)
