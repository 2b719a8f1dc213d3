"""An adapter's configuration and tensors -> what it adds to which module."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from doctor._util.units import shown
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.tensors import Tensor

LONGEST_KEY = 500
LONGEST_NAME = 300
MOST = 5_000

STEPS = 2_000_000_000
"""Of matching, for all modules of an adapter: some seconds at worst."""

_UNBOUNDED = re.compile(r"[*+{]")
_QUANTIFIED_GROUP = re.compile(r"\)\s*[*+?{]")


class NoNumberError(Exception):
    """Which entry gives no number, for people."""


class Patterns:
    """The entries of an untrusted dictionary of patterns and numbers."""

    def __init__(self, name: str, entries: object) -> None:
        self._name = name
        self._entries = entries if isinstance(entries, dict) else {}
        self._compiled: dict[str, re.Pattern[str]] = {}
        self._left = STEPS

    def of(self, module: str) -> object:
        """What the first pattern that matches the end of the name gives; None: none matches.

        Raises NoNumberError for what would take long to match.
        """
        if len(self._entries) > MOST:
            raise NoNumberError(f"{self._name} has {len(self._entries):,} entries")
        for key, value in self._entries.items():
            if isinstance(key, str) and self._matches(key, module):
                if value is None:
                    raise NoNumberError(f"{self._name}: {shown(key, 80)} has no number")
                return value
        return None

    def _matches(self, key: str, module: str) -> bool:
        if module == key or module.endswith(f".{key}"):
            return True
        pattern = self._compiled.get(key)
        if pattern is None:
            pattern = self._compiled[key] = self._compile(key)
        self._left -= _steps(key, module)
        if len(module) > LONGEST_NAME or self._left < 0:
            raise self._not_evaluated(key)
        return pattern.match(module) is not None

    def _compile(self, key: str) -> re.Pattern[str]:
        slow = len(_UNBOUNDED.findall(key)) > 1 or _QUANTIFIED_GROUP.search(key)
        if slow or len(key) > LONGEST_KEY:
            raise self._not_evaluated(key)
        try:
            return re.compile(rf"(.*\.)?({key})$")
        except (re.error, RecursionError, OverflowError) as error:
            raise self._not_evaluated(key) from error

    def _not_evaluated(self, key: str) -> NoNumberError:
        return NoNumberError(f"{self._name}: pattern not evaluated: {shown(key, 80)}")


def _steps(key: str, module: str) -> int:
    """At most so many steps does a match take: places to begin, ways through the pattern."""
    ways: int = (1 + key.count("|")) ** key.count("(") * 2 ** key.count("?")
    if _UNBOUNDED.search(key):
        ways = max(ways, len(key))
    return len(module) * (1 + module.count(".")) * ways


_FACTOR = re.compile(
    r"(?P<module>.+?)\.(?P<factor>lora_(?:A|B|embedding_A|embedding_B|magnitude_vector))"
    r"(?:\.default)?(?:\.(?P<leaf>weight|bias))?"
)
_TOKENS = re.compile(r"(?P<module>.+)\.token_adapter\.(?:base_layer\.)?trainable_tokens_delta")
_SAVED = re.compile(r"\.(?:modules_to_save(?:\.default)?|base_layer)(?=\.)")
_LEADS = ("base_model.model.", "base_model.")

VARIANTS = {
    "use_qalora": "QALoRA",
    "use_bdlora": "BD-LoRA",
    "monteclora_config": "MonteCLoRA",
    "kasa_config": "KaSA",
    "arrow_config": "Arrow",
    "layer_replication": "LoRA with replicated layers",
    "megatron_config": "LoRA over Megatron's parallel layers",
}
"""Options of a LoRA configuration that change what a merge is."""

CONVERTED = re.compile(r"(?:pissa|olora|corda|loftq|lora_ga|mica)", re.IGNORECASE)
"""Initializations that change the base, too: the merge is that of the changed base."""


@dataclass(slots=True)
class Factors:
    """The tensors of one module that an adapter changes."""

    module: str
    """As the base model calls it, or as near as the adapter's names show."""
    down: Tensor | None = None
    """lora_A, or lora_embedding_A."""
    up: Tensor | None = None
    magnitude: Tensor | None = None
    """DoRA's."""
    bias: Tensor | None = None
    """lora_B's."""
    embedding: bool = False
    scale: float | None = None
    """alpha / r or alpha / sqrt(r); None where the configuration does not say."""

    @property
    def whole(self) -> bool:
        return self.down is not None and self.up is not None


@dataclass(slots=True)
class Adapter:
    """All that one adapter holds."""

    path: str
    directory: Directory
    weight: float = 1.0
    method: str = "LoRA"
    unsupported: str = ""
    """Why its product cannot be computed, with the method's name."""
    converted: str = ""
    """The initialization that changed the base, too."""
    fan_in_fan_out: bool = False
    factors: dict[str, Factors] = field(default_factory=dict)
    saved: dict[str, Tensor] = field(default_factory=dict)
    """Tensors that replace those of the base: modules_to_save, biases."""
    copies: dict[str, Tensor] = field(default_factory=dict)
    """The base's own tensors, kept beside an adapter of an embedding."""
    tokens: dict[str, Tensor] = field(default_factory=dict)
    """Module -> rows that replace some of the base's."""
    token_indices: dict[str, list[int]] = field(default_factory=dict)
    parameters: bool = False
    """It has factors of parameters that are no modules, such as all experts of a layer."""
    base_name: str = ""
    revision: str = ""
    rank: int | None = None
    alpha: float | None = None
    patterns: bool = False
    """Some modules have a rank or an alpha of their own."""
    unscaled_reason: str = ""
    """Why the first module without a scale has none."""


def read_adapter(
    path: str,
    directory: Directory,
    config: Mapping[str, object],
    tensors: Iterable[Tensor],
    weight: float = 1.0,
) -> Adapter:
    """Untrusted; entries of a wrong type count as missing."""
    adapter = Adapter(path, directory, weight)
    _describe(adapter, config)
    for tensor in tensors:
        _sort(adapter, tensor)
    alphas, ranks = (Patterns(key, config.get(key)) for key in ("alpha_pattern", "rank_pattern"))
    for factors in adapter.factors.values():
        try:
            factors.scale = _scale(config, factors, alphas, ranks)
        except NoNumberError as error:
            adapter.unscaled_reason = adapter.unscaled_reason or str(error)
    _indices(adapter, config.get("trainable_token_indices"))
    return adapter


def _describe(adapter: Adapter, config: Mapping[str, object]) -> None:
    kind = config.get("peft_type")
    kind = shown(kind, 40) if isinstance(kind, str) else ""
    adapter.method = "DoRA" if config.get("use_dora") is True else "LoRA"
    variant = next((name for key, name in VARIANTS.items() if config.get(key)), "")
    if not kind:
        adapter.unsupported = "adapter_config.json names no peft_type"
    elif kind != "LORA" or variant:
        adapter.method = variant or kind
        adapter.unsupported = f"{adapter.method}: only LoRA and DoRA are computed"
    start = config.get("init_lora_weights")
    if isinstance(start, str) and CONVERTED.match(start):
        adapter.converted = shown(start, 40)
    adapter.fan_in_fan_out = config.get("fan_in_fan_out") is True
    adapter.patterns = bool(config.get("alpha_pattern") or config.get("rank_pattern"))
    adapter.parameters = bool(config.get("target_parameters"))
    name = config.get("base_model_name_or_path")
    adapter.base_name = shown(name, 200) if isinstance(name, str) else ""
    revision = config.get("revision")
    adapter.revision = shown(revision, 80) if isinstance(revision, str) else ""
    rank, alpha = config.get("r"), finite_number(config.get("lora_alpha"))
    adapter.rank, adapter.alpha = rank if type(rank) is int else None, alpha


def _sort(adapter: Adapter, tensor: Tensor) -> None:
    name = _without_lead(tensor.name)
    if match := _FACTOR.fullmatch(name):
        module = match["module"]
        factors = adapter.factors.setdefault(module, Factors(module))
        _place(factors, match["factor"].removeprefix("lora_"), match["leaf"], tensor)
    elif match := _TOKENS.fullmatch(name):
        adapter.tokens[match["module"]] = tensor
    elif ".base_layer." in name:
        adapter.copies[_SAVED.sub("", name)] = tensor
    else:
        adapter.saved[_SAVED.sub("", name)] = tensor


def _without_lead(name: str) -> str:
    return next((name.removeprefix(lead) for lead in _LEADS if name.startswith(lead)), name)


def _place(factors: Factors, factor: str, leaf: str | None, tensor: Tensor) -> None:
    factors.embedding = factors.embedding or factor.startswith("embedding")
    if factor == "magnitude_vector":
        factors.magnitude = tensor
    elif factor.endswith("A"):
        factors.down = tensor
    elif leaf == "bias":
        factors.bias = tensor
    else:
        factors.up = tensor


def _scale(
    config: Mapping[str, object], factors: Factors, alphas: Patterns, ranks: Patterns
) -> float | None:
    """Raises NoNumberError where an entry is no number, or its pattern is not evaluated."""
    if factors.down is None:
        return None
    rank = _rank(config, factors, ranks)
    named = alphas.of(factors.module)
    alpha = finite_number(config.get("lora_alpha") if named is None else named)
    if alpha is None:
        raise NoNumberError("lora_alpha is no finite number")
    if not rank:
        return None
    return alpha / (math.sqrt(rank) if config.get("use_rslora") is True else rank)


def _rank(config: Mapping[str, object], factors: Factors, ranks: Patterns) -> int:
    """The stored one; that of the configuration where the ranks of experts lie in one tensor."""
    assert factors.down is not None
    stored = factors.down.shape[0] if factors.down.shape else 0
    named = ranks.of(factors.module)
    rank = config.get("r") if named is None else named
    if rank is None:
        return stored
    if type(rank) is not int or rank < 1:
        raise NoNumberError(f"r is {shown(repr(rank), 40)}, an integer of at least 1 required")
    return rank if config.get("target_parameters") and stored and stored % rank == 0 else stored


def _indices(adapter: Adapter, value: object) -> None:
    for module in adapter.tokens:
        last = module.rpartition(".")[2]
        chosen = value.get(last, value.get(module)) if isinstance(value, dict) else value
        if isinstance(chosen, list) and all(type(each) is int for each in chosen):
            adapter.token_indices[module] = chosen


def finite_number(value: object) -> float | None:
    """A number of an untrusted configuration; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e9 else None
