"""Learning rates that are usual for a way of training, and those beyond which it rarely works."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from doctor.checks.log.differential.row import Evidence, cited, number
from doctor.checks.log.differential.run import BILLION, Run

ENCODERS = ("bert", "roberta", "electra")
DECODERS = (
    "gemma", "qwen", "llama", "mistral", "mixtral", r"(?<![a-z])phi(?![a-z])", "deepseek", "olmo",
    "internlm", "baichuan", r"(?<![a-z])yi-", "falcon", r"(?<![a-z])mpt(?![a-z])", "bloom",
    r"(?<![a-z])opt-", r"gpt(?![a-z])",
)  # fmt: skip
"""Expressions: the short ones are parts of other words."""
PICTURES = ("stable-diffusion", "sdxl", "flux")
DETECTORS = ("rcnn", "retinanet")


@dataclass(frozen=True, slots=True)
class Usual:
    """Rates of one way of training. Our own numbers, about the sources of the rows: `low` and
    `high` are usual, below `least` and from `most` on it rarely works."""

    what: str
    low: float
    high: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.what} usually takes {self.rates}"

    @property
    def rates(self) -> str:
        return f"{number(self.low)} to {number(self.high)}"


def _is_unknown(run: Run) -> bool:
    """No line says whether all weights of a language model are trained or an adapter."""
    says = "full" in run.kinds("method") or run.value("trainable_params")
    return _is_full(run) and not says


def _is_full(run: Run) -> bool:
    """All weights of a pretrained language model are trained."""
    decoder = run.of_kind("family", *DECODERS) or run.of_kind("model", *DECODERS)
    large = (run.value("trainable_params") or 0) >= 0.4 * BILLION
    return bool("full" in run.kinds("method") or decoder or large)


def _pretrained(run: Run) -> Usual:
    size = run.parameters or 0
    if size > 2.5 * BILLION:
        return Usual(f"pretraining of {_size(size)}", 1e-4, 4e-4, 1e-6, 9e-4)
    if size > 0.4 * BILLION:
        return Usual(f"pretraining of {_size(size)}", 1e-4, 6e-4, 1e-6, 1.5e-3)
    return Usual("pretraining of a small transformer", 3e-4, 1e-3, 1e-6, 3e-3)


def _size(parameters: float) -> str:
    return f"{parameters / BILLION:.2g}B parameters"


def _by_batch(run: Run) -> Usual:
    """SGD with momentum: the rate goes with the batch."""
    samples, detects = run.global_batch or 0, run.of_kind("family", *DETECTORS)
    usual = 0.02 * samples / 16 if detects else 0.1 * samples / 256
    what = f"SGD with a batch of {samples:,.0f}" + (" in detection" if detects else "")
    return Usual(what, usual / 4, usual, usual / 1e4, 2.5 * usual)


def _is_sgd(run: Run) -> bool:
    return bool(run.of_kind("optimizer", "sgd") and run.global_batch and not _is_full(run))


WITH_ADAM = Usual("training with Adam", 1e-5, 1e-3, 1e-8, 5e-3)
"""Of any kind of training, of which some take more."""
RULES: tuple[tuple[Callable[[Run], object], Usual | Callable[[Run], Usual]], ...] = (
    (lambda run: "preference" in run.kinds("method") and run.is_lora,
     Usual("preference optimization (DPO) of an adapter", 5e-6, 5e-5, 1e-6, 2e-4)),
    (lambda run: "preference" in run.kinds("method"),
     Usual("preference optimization (DPO) of all weights", 5e-7, 5e-6, 1e-9, 1.5e-5)),
    (lambda run: "policy" in run.kinds("method") and run.is_lora,
     Usual("reinforcement learning (GRPO, PPO) of an adapter", 5e-6, 5e-5, 5e-7, 1e-4)),
    (lambda run: "policy" in run.kinds("method"),
     Usual("reinforcement learning (GRPO, PPO) of all weights", 5e-7, 3e-6, 1e-9, 8e-6)),
    (lambda run: "control" in run.kinds("method"),
     Usual("PPO of a small network", 1e-4, 1e-3, 1e-7, 3e-3)),
    (lambda run: run.is_lora, Usual("LoRA", 5e-5, 5e-4, 2.5e-6, 1e-3)),
    (lambda run: "pretrain" in run.kinds("method"), _pretrained),
    (lambda run: run.of_kind("family", "yolo"),
     Usual("training of a YOLO detector", 1e-3, 1e-2, 1e-7, 1e-1)),
    (_is_sgd, _by_batch),
    (lambda run: run.of_kind("family", "t5"),
     Usual("fine-tuning of T5 with Adam", 1e-4, 1e-3, 1e-7, 3e-3)),
    (lambda run: run.of_kind("family", *ENCODERS),
     Usual("fine-tuning of a model like BERT", 1e-5, 5e-5, 1e-7, 2e-4)),
    (lambda run: run.of_kind("family", "wav2vec2", "hubert", "whisper"),
     Usual("fine-tuning of a speech model", 1e-5, 3e-4, 1e-8, 1e-3)),
    (lambda run: run.of_kind("family", *PICTURES),
     Usual("training of a diffusion model's weights", 1e-6, 1e-4, 1e-9, 1e-3)),
    (_is_unknown, Usual("fine-tuning of a language model (of all weights or of an adapter)",
        1e-6, 5e-4, 1e-8, 1e-3)),
    (_is_full, Usual("fine-tuning of all weights of a language model", 1e-6, 5e-5, 1e-8, 1e-4)),
    (lambda run: run.of_kind("optimizer", "adam", "lion"), WITH_ADAM),
)  # fmt: skip
"""The first whose condition holds."""


def usual_of(run: Run) -> Usual | None:
    """What is usual for the way in which the run trains; None where no line says it."""
    for holds, usual in RULES:
        if holds(run):
            return usual if isinstance(usual, Usual) else usual(run)
    return None


def too_high(run: Run) -> Evidence | None:
    rate, usual = run.rate, usual_of(run)
    if rate is None or rate.number is None or usual is None or rate.number < usual.most:
        return None
    words = {"usual": usual.rates}
    return Evidence(f"{cited(rate)}; {usual}", (rate,), words, is_far=usual is not WITH_ADAM)


def too_low(run: Run) -> Evidence | None:
    """A rate with which next to nothing is learned; where all rewards are alike, none would do."""
    rate, usual = run.rate, usual_of(run)
    if rate is None or rate.number is None or usual is None or rate.number > usual.least:
        return None
    spread = run.curve("reward_spread")
    if spread is not None and not any(float(value) for value in spread.values):
        return None
    sentence = f"{cited(rate)}, which may be too low; {usual}"
    return Evidence(sentence, (rate,), {"usual": usual.rates})


def adapter_scaled(run: Run) -> Evidence | None:
    """alpha / rank multiplies what an adapter adds, and with it the effect of the rate."""
    alpha, rank = run.positive("lora_alpha"), run.positive("lora_rank")
    if alpha is None or rank is None or not alpha.number or not rank.number:
        return None
    rooted = run.positive("rslora") is not None
    scale = alpha.number / (math.sqrt(rank.number) if rooted else rank.number)
    if scale < SCALED or _is_made_up_for(run, scale, or_unknown=rooted):
        return None
    root = "the root of " if rooted else ""
    return Evidence(
        f"{cited(alpha)} over {root}{cited(rank)} scales the adapter by {number(scale)}, where 1 "
        "to 2 is usual",
        (alpha, rank),
        {"rank": number(rank.number or 0), "twice": number(2 * (rank.number or 0))},
    )


def _is_made_up_for(run: Run, scale: float, *, or_unknown: bool) -> bool:
    """Whether the rate is as much smaller as the adapter is scaled."""
    rate, usual = run.rate, usual_of(run)
    if rate is None or rate.number is None or usual is None:
        return or_unknown
    return rate.number * scale < 2 * usual.most


SCALED = 8.0
"""alpha / rank from which on the usual rates are too high. Our own number."""
