"""What was read of a checkpoint: frozen records, as in sections.py. No thresholds here."""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Section, Unknown

ProblemKind = Literal[
    "damaged",
    "disguised",
    "missing",
    "stale-index",
    "no-index",
    "stray",
    "twice",
    "over-limit",
    "not-inspectable",
    "note",
]


class Problem(Section, frozen=True, kw_only=True):
    """Something wrong with a checkpoint's files."""

    kind: ProblemKind
    file: str
    """"" where it concerns the whole directory."""
    text: str
    """What is wrong, to stand behind the file's name; names in it are escaped and cut."""

    @property
    def said(self) -> str:
        return f"{self.file} {self.text}".lstrip()


class Role(Section, frozen=True, kw_only=True):
    """Tensors that share a name once layer numbers are taken out."""

    name: str
    dtypes: dict[str, int]
    """dtype -> number of tensors."""


class Norm(Section, frozen=True, kw_only=True):
    """A normalisation weight and what was read of it."""

    name: str
    dtype: str
    size: int
    """Elements."""
    value: Literal["ones", "zeros", "other", "nonfinite", "unread"]
    """ones and zeros: every element, bit for bit. nonfinite: NaN or Inf is among what was read."""


class History(Section, frozen=True, kw_only=True):
    """What trainer_state.json tells of the run."""

    steps: int
    """global_step."""
    lr_sum: float
    """Sum of the learning rate over the steps that the log covers."""
    lr_squares: float
    """Sum of its squares over the same steps."""
    covered: int
    """Steps that the log covers."""
    lr_max: float = 0.0
    """The largest logged learning rate; 0: not recorded."""


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
    """All are -inf in what is called a mask or an attention bias, where -inf is right."""


class Large(Section, frozen=True, kw_only=True):
    """An fp16 tensor with finite values beyond half of fp16's largest, 65504."""

    name: str
    values: int
    """All that the tensor holds."""
    large: int
    """Of these, beyond 32752 in magnitude."""


class Values(Section, frozen=True, kw_only=True):
    """What reading every stored value found."""

    tensors: int
    """Tensors whose values were read."""
    bytes: int
    """Bytes read."""
    exempt: int = 0
    """Tensors of dtypes that hold finite values only: integers, booleans, F4 and F6."""
    unchecked: dict[str, int] = {}
    """dtype whose bits the doctor does not know -> tensors."""
    nonfinite: tuple[NonFinite, ...] = ()
    """In the order of the files; the first thousand."""
    nonfinite_tensors: int = 0
    """All with non-finite values that are no masks."""
    fp16_values: int = 0
    fp16_large: int = 0
    """Finite fp16 values beyond 32752, half of fp16's largest."""
    large: tuple[Large, ...] = ()
    """Tensors that hold them, most first; twenty at most."""
    problems: tuple[Problem, ...] = ()
    """Files that could not be read to their end, or were changed while they were read."""
    threads: int = 1
    seconds: float = 0.0


class Unmoved(Section, frozen=True, kw_only=True):
    """Tensors of one role that are bit for bit as they were."""

    role: str
    """Their name once layer numbers are taken out."""
    kind: Literal["norm", "attention", "MLP", "embedding", "head", "other"]
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


class Moves(Section, frozen=True, kw_only=True):
    """Which tensors differ from those of an earlier checkpoint, matched by name."""

    baseline: str
    """Where the earlier one is."""
    moved: int
    unmoved: int
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
    """norm, attention, MLP, embedding, head or other -> how many moved, of how many compared."""
    still: tuple[Unmoved, ...] = ()
    """By role, most tensors first."""
    reasons: tuple[Incomparable, ...] = ()
    bytes: int = 0
    """Bytes read, of both."""
    seconds: float = 0.0

    @property
    def compared(self) -> int:
        return self.moved + self.unmoved


class Evidence(Section, frozen=True, kw_only=True):
    """What an optimizer kept for the norms that stand at their initial value.

    The counts from `absent` to `unread` add up to `norms`, unless nothing can be attributed.
    """

    norms: int
    by: Literal["names", "order", "shapes"] | None = None
    """How entries were found to be the norms': by name, by the order of the weights in their file,
    or because the statement holds for every mapping. None: they cannot be attributed."""
    reason: str = ""
    """Why they cannot be."""
    absent: int = 0
    """In none of the parameter groups: the optimizer never stepped them."""
    missing: int = 0
    """In a group and without an entry: never received a gradient."""
    zero: int = 0
    """With an entry whose moments are all zero: every gradient was zero."""
    moving: int = 0
    """With an entry that has a non-zero moment."""
    unread: int = 0
    """With an entry that could not be read, or that has no moments."""
    dtypes: dict[str, int] = {}
    """dtype of the moments -> norms, of those that are `moving`."""
    step_min: float | None = None
    step_max: float | None = None
    lr_max: float | None = None
    """Largest learning rate of the groups that may hold them."""
    masters_moved: int = 0
    """Whose fp32 master differs from all-ones and all-zeros."""
    masters_still: int = 0
    """Whose fp32 master is all-ones or all-zeros as well."""


class Optimizer(Section, frozen=True, kw_only=True):
    """What an optimizer's saved state tells."""

    file: str
    kind: str
    """"Adam", "SGD with momentum", ...; "of a kind that is not known"."""
    entries: int
    """Parameters that it keeps something for."""
    parameters: int
    """Parameters in its groups."""
    missing: int = 0
    """Of these, without an entry: they never received a gradient."""
    missing_names: tuple[str, ...] = ()
    """The first ten, where the optimizer knew names."""
    moments: dict[str, int] = {}
    """dtype of the moments -> entries."""
    follows: bool = False
    """The moments have the dtype of the weights that the optimizer steps."""
    zero: int = 0
    """Entries whose moments are all zero."""
    moving: int = 0
    """Entries with a non-zero moment."""
    unread: int = 0
    """Entries whose moments were not read, or have none."""
    nonfinite: tuple[str, ...] = ()
    """Numbers of its own that are NaN or infinite: "step", "learning rate"."""
    step_min: float | None = None
    step_max: float | None = None
    lr: tuple[float, ...] = ()
    """Of the groups; the learning rate that a schedule started from, where the group tells it."""
    weight_decay: tuple[float, ...] = ()
    masters: dict[str, int] = {}
    """dtype of the copies of the weights that the optimizer steps -> copies."""
    low_masters: bool = False
    """DeepSpeed's bf16_master_weights_and_grads is set."""
    defeats: str = ""
    """What keeps small updates from being lost: the slot's name, compensation or mantissa."""
    norms: Evidence | None = None
    """None: no norm stands at its initial value."""


class Tokenizer(Section, frozen=True, kw_only=True):
    """The padding token, by the files beside the weights."""

    files: tuple[str, ...]
    pad: str | None = None
    """The token's text as the tokenizer's files name it."""
    pad_id: int | None = None
    """Its number; None where the files do not tell."""
    first: str | None = None
    """The text of token 0."""
    eos: str | None = None
    unk: str | None = None
    configured: dict[str, int] = {}
    """File -> pad_token_id in it: config.json and generation_config.json."""
    vocabulary: int | None = None
    """vocab_size of config.json: the rows of the embedding."""
    problems: tuple[Problem, ...] = ()


class Share(Section, frozen=True, kw_only=True):
    """What the tensors of one dtype in one part of the model come to."""

    dtype: str
    kind: Literal["norm", "attention", "MLP", "embedding", "head", "other"]
    tensors: int
    parameters: int
    bytes: int


class Checkpoint(Section, frozen=True, kw_only=True):
    """A checkpoint's headers, norms and configuration.

    Where a problem says not-inspectable, only the sizes of the files are known.
    """

    path: str
    layout: str
    files: int
    tensors: int
    parameters: int
    """Elements of all tensors, as stored: fewer than the model's where weights are packed."""
    bytes: int
    """Size of the files."""
    largest_file: int
    dtypes: dict[str, int] = {}
    """dtype -> bytes."""
    roles: tuple[Role, ...] = ()
    norms: tuple[Norm, ...] = ()
    problems: tuple[Problem, ...] = ()
    model_type: str | None = None
    text_model_type: str | None = None
    """model_type of text_config, where the model has several parts."""
    config_dtype: str | None = None
    """dtype or torch_dtype of config.json."""
    quantized: bool = False
    history: History | None = None
    optimizer: Optimizer | Unknown | None = None
    """None: no optimizer's state is there."""
    born_at_one: tuple[Norm, ...] = ()
    """Other parameters whose initial value is 1.0: Mamba's D, LayerScale, IA3 vectors."""
    tokenizer: Tokenizer | None = None
    """None: no tokenizer's files are there."""
    imports: tuple[str, ...] = ()
    """Globals that unpickling the weights and the optimizer's state would import."""
    refused: tuple[str, ...] = ()
    """Of these, what torch.load(weights_only=True) refuses."""
    pickles: int = 0
    """Pickled files among the weights and the optimizer's state."""
    adapter: str | None = None
    """peft_type of adapter_config.json: LORA, IA3, ..."""
    shares: tuple[Share, ...] = ()
    """By dtype and part of the model; () where only `doctor scan` asks for them."""
    values: Values | Unknown | None = None
    """None: --deep was not asked for."""
    moves: Moves | Unknown | None = None
    """None: --baseline was not given."""
    lone_shard: bool = False
    """One shard of several was named; the others were not looked at."""
    step: int | None = None
    """How many steps the run had taken, by the checkpoint's own counter or trainer_state.json."""
    beside: tuple[str, ...] = ()
    """Files of the same save that hold no weights: optimizer, scheduler, random states."""
    seconds: float = 0.0

    @property
    def not_inspectable(self) -> str | None:
        """Why its contents could not be read, so that nothing may be said of them."""
        for problem in self.problems:
            if problem.kind == "not-inspectable":
                return problem.said
        return None
