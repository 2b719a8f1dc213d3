"""What a merged model has of its base and of the adapters, and whether an adapter fits a model."""

from __future__ import annotations

from doctor._util.records import Section
from doctor.checkpoint.records.contents import Kind


class AdapterUse(Section, frozen=True, kw_only=True):
    """One adapter of a merge, by its configuration and the names of its tensors."""

    path: str
    method: str
    """"LoRA", "DoRA", or what else peft_type or an option names."""
    weight: float = 1.0
    """The factor that was given with it."""
    unsupported: str = ""
    """Why its product is not computed; "" where it is."""
    converted: str = ""
    """init_lora_weights, where that changed the base, too: pissa, loftq, ..."""
    rank: int | None = None
    alpha: float | None = None
    modules: int = 0
    """Modules with both factors."""
    patterns: bool = False
    """It has a rank_pattern or an alpha_pattern."""
    base: str = ""
    """base_model_name_or_path."""
    revision: str = ""
    """revision of adapter_config.json."""
    unmatched: tuple[str, ...] = ()
    """Modules that no tensor of the base has the name of; the first ten."""
    unmatched_count: int = 0
    misfits: tuple[str, ...] = ()
    """Modules whose product does not have the shape of the weight, with both; the first ten."""
    misfit_count: int = 0
    incomplete: tuple[str, ...] = ()
    """Modules that lack a factor; the first ten."""
    zero: int = 0
    """Modules whose product is zero."""
    unscaled: int = 0
    """Modules for which the configuration gives no scale."""
    unscaled_reason: str = ""
    """Why the first of them has none; "" where nothing is configured."""


class MergedWeight(Section, frozen=True, kw_only=True):
    """One weight that adapters change, beside its base. Lengths are root mean squares."""

    name: str
    layer: str
    kind: Kind
    elements: int
    """That were measured; all others are alike, or `sampled` says that they were not read."""
    base: float
    """Of the base's values."""
    update: float
    """Of what the adapters add."""
    moved: float
    """Of merged - base."""
    residual: float
    """Of merged - (base + update)."""
    bound: float
    """The most that the roundings of the merge leave."""
    mismatch: float
    """Of merged - (base + update), rounded to the stored dtype."""
    lost: float
    """Share of the update that the stored dtype does not hold."""
    changed: int
    """Elements that differ from the base, rounded to the stored dtype."""
    expected: int
    """Elements that the update changes in the stored dtype."""
    scale: float | None = None
    """By how many times the update the weight moved; None where too little moved to tell."""
    explained: float = 0.0
    """Share of the movement that the update, times `scale`, explains."""
    factors: tuple[float, ...] = ()
    """The same for each adapter that changes it, in their order; () where not distinguishable."""
    adapters: tuple[int, ...] = ()
    """Numbers of the adapters that change it, from 0."""
    grid: str = ""
    """The dtype that the merged values were rounded to, also where they are stored wider."""
    quantized: str = ""
    """The kind of quantization of the base that explains what is left: nf4, int8."""
    requantized: bool = False
    """The sum was rounded to it again."""
    instead: str = ""
    """What was added in place of the update, where a known mistake explains it."""
    nonfinite: int = 0
    rows: int = 0
    """That were measured."""
    rows_off: int = 0
    """Of these, rows of which three times more is left than roundings leave, and than half the
    update."""
    first_off: int | None = None
    """The number of the first of them."""
    residual_of_others: float = 0.0
    """The part of `residual` that is in the other rows."""


class Replaced(Section, frozen=True, kw_only=True):
    """A tensor that an adapter brings whole, or some rows of."""

    name: str
    matches: bool
    """The merged model has it, as far as its dtype holds it."""
    as_base: bool = False
    """It is still the base's."""
    other_rows: int = 0
    """Of an embedding of which the adapter brings some rows: others that changed."""


class Untouched(Section, frozen=True, kw_only=True):
    """Tensors that no adapter changes, in the merged model and its base."""

    compared: int = 0
    equal: int = 0
    cast: int = 0
    """Equal once cast to the other's dtype."""
    casts: tuple[str, ...] = ()
    """Casts, "F32 to BF16"."""
    padded: tuple[str, ...] = ()
    """Embeddings and heads with other numbers of rows whose common rows are equal."""
    changed: tuple[str, ...] = ()
    """Tensors with other values; the first twenty."""
    changed_count: int = 0
    quantized: str = ""
    """The kind of quantization that explains all of the first twenty."""
    reshaped: tuple[str, ...] = ()
    """Tensors of other shapes; the first twenty."""
    added: tuple[str, ...] = ()
    """Only in the merged model; the first twenty."""
    added_count: int = 0
    removed: tuple[str, ...] = ()
    """Only in the base; the first twenty, those that a program computes last."""
    removed_count: int = 0
    copies: tuple[str, ...] = ()
    """Of `removed`: heads and embeddings that are equal to another one of the base."""
    unread: int = 0
    """Tensors that cannot be compared: quantized, or not in C order."""


class LayerUpdate(Section, frozen=True, kw_only=True):
    """The update of one part of a layer."""

    layer: str
    kind: Kind
    tensors: int
    relative: float
    """Size of the update by that of the base's weights."""
    scale: float | None
    """The median of its weights' scales."""
    lost: float
    """Share of the update that the stored dtype does not hold."""


class TokenizerChange(Section, frozen=True, kw_only=True):
    """The tokenizer of a merged model beside that of its base or adapter."""

    origin: str
    """The path of the other one: the adapter's where it has one."""
    moved: int = 0
    """Tokens of both that have another number."""
    examples: tuple[str, ...] = ()
    """The first five of them, with both numbers."""
    added: int = 0
    removed: int = 0
    rules: tuple[str, ...] = ()
    """Parts of tokenizer.json that cut texts otherwise: merges, normalizer, pre_tokenizer."""
    template: bool = False
    """The chat template is another."""


class Merge(Section, frozen=True, kw_only=True):
    """A merged model beside base plus adapters."""

    base: str
    base_name: str = ""
    """What the Hub's cache calls the base, or else its own config.json."""
    base_revision: str = ""
    """The commit of it in the Hub's cache."""
    adapters: tuple[AdapterUse, ...] = ()
    weights: tuple[MergedWeight, ...] = ()
    """Those that adapters change and that could be read; the first twenty thousand."""
    unread: tuple[str, ...] = ()
    """Those that adapters change and that could not be compared, with the reason; twenty."""
    unread_count: int = 0
    replaced: tuple[Replaced, ...] = ()
    untouched: Untouched | None = None
    """None: only an adapter and a base were compared."""
    layers: tuple[LayerUpdate, ...] = ()
    tokenizer: TokenizerChange | None = None
    """None: one of the two has no tokenizer.json."""
    other_files: tuple[str, ...] = ()
    """Files of the tokenizer and the chat template that differ from the base's."""
    bytes: int = 0
    """Bytes read, of both."""
    sampled: bool = True
    """Of weights that DoRA changes, rows spread over each were compared, not all."""
    seconds: float = 0.0
