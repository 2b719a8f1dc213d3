"""What a deep scan and a comparison with an earlier checkpoint read of the values."""

from __future__ import annotations

from doctor._util.records import Section
from doctor.checkpoint.records.contents import Kind
from doctor.checkpoint.records.problems import Problem


class NonFinite(Section, frozen=True, kw_only=True):
    """A stored tensor with values that are not finite; complex numbers count as pairs of values."""

    name: str
    file: str
    dtype: str
    values: int
    """All that the tensor holds."""
    nan: int
    plus_inf: int
    minus_inf: int
    first: int
    """Flat index of the first of them, in C order."""
    masks: bool = False
    """All are -inf, in a mask or an attention bias, by its name or its triangle."""


class Large(Section, frozen=True, kw_only=True):
    """An fp16 tensor with finite values beyond half of fp16's largest, 65504."""

    name: str
    values: int
    """All that the tensor holds."""
    large: int
    """Of these, beyond 32752 in magnitude."""


class Constant(Section, frozen=True, kw_only=True):
    """A float matrix all of whose elements are one value, bit for bit."""

    name: str
    zero: bool


class Copy(Section, frozen=True, kw_only=True):
    """A float matrix that has the bytes of another one, at another place."""

    name: str
    of: str


class ZeroRange(Section, frozen=True, kw_only=True):
    """A stretch of zeros in a file that is not just whole matrices of zeros."""

    file: str
    begin: int
    end: int
    """Bytes of the file."""
    name: str
    """The matrix in which it begins."""
    kind: Kind
    """That matrix's part of the model."""
    inside: bool
    """It begins behind other values of that matrix."""
    matrices: int
    """Matrices that it covers, in part or whole."""
    rows: tuple[int, int] | None = None
    """Of the matrix inside which it lies, the first row and the last; None: it reaches an end of a
    matrix."""
    share: float = 0.0
    """Of that matrix; 0 where it covers several."""


class Outlier(Section, frozen=True, kw_only=True):
    """A matrix with finite values far beyond the rest of it."""

    name: str
    file: str
    values: int
    """Values beyond a million times what nearly all of the matrix is below."""
    largest: float
    """Magnitude of the largest."""
    rest: float
    """The magnitude that nearly all of a sample is below."""


class LayerValues(Section, frozen=True, kw_only=True):
    """Magnitudes of one part of a layer, by samples of up to 8 KiB of each tensor."""

    layer: str
    """Its number, "" outside of the numbered layers."""
    kind: Kind
    tensors: int
    least: float
    largest: float
    rms: float
    norm: float
    zeros: float
    """Share of exact zeros."""


class LayerChange(Section, frozen=True, kw_only=True):
    """How far one part of a layer is from the baseline, by the same samples."""

    layer: str
    kind: Kind
    tensors: int
    relative: float | None
    """Norm of the difference by the norm of the baseline; None where that is 0."""


TRANSPOSED = "transposed"
TURNED = "its shape is turned around"


class TensorChange(Section, frozen=True, kw_only=True):
    """How far one matrix is from the baseline, by a sample of it."""

    name: str
    kind: Kind
    layer: str
    """Its number, "" outside of the numbered layers."""
    relative: float
    """Norm of the difference by the norm of the baseline."""
    cosine: float
    """Of the angle between both: 0 where they have nothing in common."""
    factor: float
    """By how many times it is longer than it was."""


class Average(Section, frozen=True, kw_only=True):
    """An average of the weights beside them, by samples of its matrices."""

    state: str
    """What it is called in the file."""
    matrices: int
    equal: int
    """Of these, those with the model's values."""
    unrelated: int
    """Those that have nothing in common with the model's."""
    zero: int


class SecondWeights(Section, frozen=True, kw_only=True):
    """Weights in pytorch_model.bin or adapter_model.bin, beside safetensors."""

    file: str
    """The first of them."""
    compared: int = 0
    """Tensors that both have."""
    differing: int = 0
    """Of these, after casts."""
    first: str = ""
    """The name of the first that differs."""


class Values(Section, frozen=True, kw_only=True):
    """The result of reading every stored value."""

    requested: bool = True
    """False where they were read because they are few."""
    tensors: int
    """Tensors whose values were read."""
    bytes: int
    """Bytes read."""
    exempt: int = 0
    """Tensors of dtypes that hold finite values only: integers, booleans, F4 and F6."""
    unchecked: dict[str, int] = {}
    """dtype of unknown format -> tensors."""
    nonfinite: tuple[NonFinite, ...] = ()
    """In the order of the files; the first thousand."""
    nonfinite_tensors: int = 0
    """Tensors with non-finite values, without masks."""
    fp16_values: int = 0
    fp16_large: int = 0
    """Finite fp16 values beyond 32752, half of fp16's largest."""
    large: tuple[Large, ...] = ()
    """Tensors that hold them, most first; twenty at most."""
    negative: tuple[str, ...] = ()
    """Means of squares (second moments, variances of batch norms) that hold negative values; the
    first hundred."""
    outliers: tuple[Outlier, ...] = ()
    """The first hundred."""
    layers: tuple[LayerValues, ...] = ()
    damaged_records: tuple[str, ...] = ()
    """Records of zips whose CRC-32 is not the one in the zip's directory, with their files."""
    matrices: int = 0
    """Float matrices of the model that lie in one piece."""
    zero_matrices: int = 0
    """Of these, those of zeros alone."""
    constant: tuple[Constant, ...] = ()
    """Matrices of one value; the first thousand, as of the next two."""
    copies: tuple[Copy, ...] = ()
    zero_ranges: tuple[ZeroRange, ...] = ()
    zero_rows: dict[str, float] = {}
    """Embedding of tokens -> the share of its rows that are zeros, by a sample."""
    checksums: int = 0
    """Files whose SHA-256 is the one that the Hugging Face Hub gave for them."""
    differing: tuple[str, ...] = ()
    """Files whose SHA-256 is not."""
    unlike_lists: tuple[str, ...] = ()
    """Files whose SHA-256 is not the one in a list beside them, such as SHA256SUMS."""
    averages: tuple[Average, ...] = ()
    further: int = 0
    """Of `tensors`, those of other state_dicts in the files (ema, discriminator)."""
    moments: int = 0
    """Of `tensors`, those of the optimizer's state."""
    second: SecondWeights | None = None
    """None: there are none, or they could not be read."""
    problems: tuple[Problem, ...] = ()
    """Files that could not be read to their end, or were changed while they were read."""
    threads: int = 1
    seconds: float = 0.0


class UnchangedRole(Section, frozen=True, kw_only=True):
    """Tensors of one role that are bit for bit the same in both checkpoints."""

    role: str
    """Their name once layer numbers are removed."""
    kind: Kind
    dtype: str
    count: int
    compared: int
    """All of the role that could be compared."""
    names: tuple[str, ...] = ()
    """The first hundred."""


class Incomparable(Section, frozen=True, kw_only=True):
    """Tensors that are in both checkpoints and could not be compared, for one reason."""

    reason: str
    count: int
    names: tuple[str, ...] = ()
    """The first ten."""


class Movement(Section, frozen=True, kw_only=True):
    """Which tensors differ from those of an earlier checkpoint, matched by name."""

    baseline: str
    """Where the earlier one is."""
    changed: int
    unchanged: int
    incomparable: int = 0
    added: int = 0
    """Only here."""
    added_names: tuple[str, ...] = ()
    """The first ten."""
    removed: int = 0
    """Only in the baseline."""
    removed_names: tuple[str, ...] = ()
    """The first ten."""
    kinds: dict[str, tuple[int, int]] = {}
    """norm, attention, MLP, embedding, head or other -> how many changed, of how many compared."""
    layers: tuple[LayerChange, ...] = ()
    matrices: int = 0
    """That were sampled in both."""
    median: float | None = None
    """Of the relative changes of these."""
    most_changed: tuple[TensorChange, ...] = ()
    """The hundred that changed most, relative to what they were, in the order of their names."""
    origins: dict[str, str] = {}
    """Matrix that has nothing in common with the baseline's -> the tensor of the baseline whose
    values it holds, or TRANSPOSED: its own."""
    unchanged_roles: tuple[UnchangedRole, ...] = ()
    """By role, most tensors first."""
    reasons: tuple[Incomparable, ...] = ()
    bytes: int = 0
    """Bytes read, of both."""
    seconds: float = 0.0

    @property
    def compared(self) -> int:
        return self.changed + self.unchanged
