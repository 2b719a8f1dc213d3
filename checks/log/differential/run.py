"""A run as its log states it: settings by name, and what follows from them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property

from doctor.facts.log import Curve, Log
from doctor.facts.stated import Setting
from doctor.hardware.find import capability_of

SIZE = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d{1,2})?)[bB](?![a-zA-Z])")
"""In the name of a model."""
BILLION = 1e9
FEW = 1e5
"""Numbers up to which "params" counts tensors or settings."""
HALF = re.compile(r"fp16|(?<!b)float16|(?<!bf)\b16-mixed|^16$|^half$", re.IGNORECASE)
AMPERE = (8, 0)
"""The first capability with bf16."""
OLDER = re.compile(r"GTX|TITAN", re.IGNORECASE)
"""Series that ended before it, whose oldest products the table of hardware lacks."""


@dataclass(frozen=True)
class Run:
    """Settings, curves and the line of what failed, of one file."""

    log: Log
    path: str
    line: int = 0
    """Of the failure; later settings are of another run."""

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """Of the file itself; what only another one states is added."""
        own = [each for each in self.log.stated if each.path == self.path]
        names = {each.name for each in own}
        return (*own, *(each for each in self.log.stated if each.name not in names))

    def all(self, name: str) -> list[Setting]:
        """Every value of a setting, in the order of the lines."""
        return [each for each in self.settings if each.name == name]

    def setting(self, name: str) -> Setting | None:
        """The first value; of a resumed run the last one before the failure is in `all`."""
        return next(iter(self.all(name)), None)

    def number(self, name: str) -> float | None:
        found = self.setting(name)
        return found.number if found else None

    def positive(self, name: str) -> Setting | None:
        """The first value above 0: -1 and 0 stand for "not set"."""
        return next((each for each in self.all(name) if (each.number or 0) > 0), None)

    def value(self, name: str) -> float | None:
        found = self.positive(name)
        return found.number if found else None

    def is_off(self, name: str) -> Setting | None:
        """The setting, where it is stated as 0, False or None and never as more."""
        return None if self.positive(name) or _has_text(self.all(name)) else self.setting(name)

    def at_least(self, name: str, limit: float) -> bool:
        """Whether a value of a setting is above a limit."""
        return any((each.number or 0) > limit for each in self.all(name))

    def kinds(self, name: str) -> set[str]:
        return {each.text.lower() for each in self.all(name)}

    def of_kind(self, name: str, *words: str) -> Setting | None:
        """The first setting whose text has one of these words, which may be expressions."""
        return next(
            (
                each
                for each in self.all(name)
                if any(re.search(word, each.text.lower()) for word in words)
            ),
            None,
        )

    def curve(self, name: str) -> Curve | None:
        return next(
            (each for each in self.log.curves if each.name == name and each.path == self.path), None
        )

    @cached_property
    def rate(self) -> Setting | None:
        """The learning rate as it is stated, else the highest of its curve; that of the curve
        also where it is scaled to twice what is stated or more."""
        found, curve = self.positive("learning_rate"), self.curve("learning_rate")
        pairs = [
            (float(value), at)
            for at, value in enumerate(curve.values if curve else ())
            if math.isfinite(float(value)) and float(value) > 0
        ]
        value, at = max(pairs, key=lambda pair: pair[0], default=(0.0, 0))
        if curve is None or not pairs or (found and value < 2 * (found.number or 0)):
            return found
        line = curve.lines[at] if curve.lines else 0
        return Setting(
            name="learning_rate", text=f"{value:g}", number=value, path=curve.path, line=line
        )

    @cached_property
    def parameters(self) -> float | None:
        """Of the whole model: as stated, by its shape, or by its name."""
        names = (
            ["all_params"] if "lora" in self.kinds("method") else ["all_params", "trainable_params"]
        )
        stated = [each.number or 0 for name in names for each in self.all(name)]
        if (most := max(stated, default=0)) > FEW:
            return most
        hidden, layers = self.value("hidden_size"), self.value("layers")
        if hidden and layers and hidden >= 128:
            return 12 * layers * hidden**2 + (self.value("vocab_size") or 0) * hidden
        for each in self.all("model"):
            if match := SIZE.search(each.text):
                return float(match[1]) * BILLION
        return None

    @cached_property
    def is_lora(self) -> bool:
        """An adapter is trained: by name, or by the share of the parameters."""
        trained, whole = self.value("trainable_params"), self.value("all_params")
        if trained and whole:
            return trained < 0.2 * whole
        return "full" not in self.kinds("method") and (
            "lora" in self.kinds("method") or self.positive("lora_rank") is not None
        )

    @cached_property
    def world_size(self) -> float | None:
        stated = self.value("world_size")
        whole, batch = self.value("global_batch"), self.value("batch_size")
        if whole and batch:
            return max(1.0, round(whole / batch / (self.value("accumulation") or 1)))
        return stated

    @cached_property
    def global_batch(self) -> float | None:
        """Samples of one optimizer step."""
        batch = self.value("batch_size")
        if whole := self.value("global_batch"):
            return whole
        if not batch:
            return None
        return batch * (self.value("accumulation") or 1) * (self.world_size or 1)

    @cached_property
    def steps(self) -> Setting | None:
        """How many optimizer steps the run takes."""
        return self.positive("max_steps")

    @cached_property
    def has_bf16(self) -> bool | None:
        """Whether the GPU computes in bf16; None where no line names it."""
        named = self.all("gpu")
        return None if not named else not any(_lacks_bf16(each.text) for each in named)

    @cached_property
    def half(self) -> Setting | None:
        """What says that the run computes in fp16."""
        on = next((each for each in self.all("fp16") if each.number == 1), None)
        named = (*self.all("precision"), *self.all("dtype"))
        return on or next((each for each in named if HALF.search(each.text)), None)


def _lacks_bf16(gpu: str) -> bool:
    capability = capability_of(gpu)
    return capability < AMPERE if capability is not None else OLDER.search(gpu) is not None


def _has_text(settings: list[Setting]) -> bool:
    return any(each.number is None for each in settings)
