"""A checkpoint as a frozen record, part of the facts. No thresholds here."""

from __future__ import annotations

import msgspec

from doctor._util.records import Section, Unknown
from doctor.checkpoint.records.contents import Contents, Files
from doctor.checkpoint.records.continuation import Continuation
from doctor.checkpoint.records.equality import Equality
from doctor.checkpoint.records.merge import Merge
from doctor.checkpoint.records.model import ChangedSetting, LoraFit, ModelConfig
from doctor.checkpoint.records.problems import Problem
from doctor.checkpoint.records.training import Training
from doctor.checkpoint.records.values import Movement, Values


class CodeCall(Section, frozen=True, kw_only=True):
    """A call in a Python file beside the weights."""

    file: str
    line: int
    name: str
    """"subprocess.run"."""
    kind: str
    """program: it starts one. obtained: it runs what was fetched or decoded. hidden: the name of
    what it calls is computed. evaluation: it runs a text. network: it reaches the network."""
    when: str
    """import, load (making the model and a step with it), "" for on request."""


class OwnCode(Section, frozen=True, kw_only=True):
    """Code that the files name or hold, read by its syntax."""

    files: tuple[str, ...] = ()
    """Python files that trust_remote_code runs."""
    calls: tuple[CodeCall, ...] = ()
    unread: tuple[str, ...] = ()
    """Of these files, those that could not be read, each with the reason."""
    elsewhere: tuple[str, ...] = ()
    """Code of other repositories that the configuration names."""
    template: tuple[str, ...] = ()
    """Expressions of the chat template that reach Python's internals, each with its place."""


class Loading(Section, frozen=True, kw_only=True):
    """What loading the weights and the optimizer's state with torch.load would import."""

    pickles: int = 0
    """Pickled files."""
    imports: tuple[str, ...] = ()
    """Globals that unpickling would import, "module.name"."""
    refused: tuple[str, ...] = ()
    """Of these, what torch.load(weights_only=True) refuses."""
    plain: tuple[str, ...] = ()
    """Files among the weights that are pickles without anything of torch."""
    executed: tuple[str, ...] = ()
    """Of these, what torch.distributed.checkpoint imports by plain pickle, and that its files do
    not hold usually."""
    dangerous: tuple[str, ...] = ()
    """Globals of any pickle, also of those beside the weights, that are known to run code."""
    protocol: int = 0
    """The highest protocol of the pickles; weights-only loading reads 2 alone."""
    beside: dict[str, tuple[str, ...]] = {}
    """Pickled files that hold neither weights nor optimizer's state -> globals that they name."""
    called: dict[str, tuple[str, ...]] = {}
    """File -> globals in it that unpickling calls although nothing that saves such files does."""
    tricks: dict[str, tuple[str, ...]] = {}
    """File -> what its pickle does that none that was saved does, such as computing a name."""
    doubtful: dict[str, tuple[str, ...]] = {}
    """File beside the weights -> globals that are called and that nobody knows."""
    unfamiliar: dict[str, tuple[str, ...]] = {}
    """File beside the weights -> classes that its usual writers do not put into it."""
    unread: tuple[str, ...] = ()
    """Files whose pickles could not be read to their ends, each with the reason."""
    own: OwnCode = msgspec.field(default_factory=OwnCode)

    @property
    def runs_code(self) -> bool:
        """Whether a pickle is known to run code, or hides what it does."""
        return bool(self.dangerous or self.called or self.tricks)


class Tokenizer(Section, frozen=True, kw_only=True):
    """The padding token, by the files beside the weights."""

    files: tuple[str, ...]
    pad: str | None = None
    """The token's text."""
    pad_id: int | None = None
    """Its number; None where the files do not contain it."""
    first: str | None = None
    """The text of token 0."""
    eos: str | None = None
    eos_id: int | None = None
    """Its number; None where the files do not contain it."""
    named: dict[str, int] = {}
    """Entry of a configuration, "eos_token_id in generation_config.json" -> its number, the
    largest where there are several."""
    stops: tuple[int, ...] = ()
    """The numbers of eos_token_id in generation_config.json and config.json of a model that
    generates; () where neither names one."""
    absent_ends: tuple[str, ...] = ()
    """Texts that the chat template ends turns with and that are no tokens."""
    ends: dict[str, int] = {}
    """Texts that the chat template ends turns with -> the numbers of these tokens."""
    unk: str | None = None
    exchanged: dict[str, str] = {}
    """Role, "eos" -> the token that has its number in config.json, which the tokenizer uses for
    another role or for none."""
    configured: dict[str, int] = {}
    """File -> pad_token_id in it: config.json and generation_config.json."""
    vocabulary: int | None = None
    """vocab_size of config.json: the rows of the embedding."""
    largest: int | None = None
    """The largest number of a token; None where tokenizer.json was not read to its end."""
    largest_added: int | None = None
    """The same of the tokens that were added to the vocabulary, special ones among them."""
    lacks_vocabulary: str = ""
    """The class of tokenizer_config.json that is made from tokenizer.json, where that is missing,
    and every other file of a vocabulary, too."""
    vocabulary_elsewhere: str = ""
    """The sentencepiece model beside a tokenizer.json whose vocabulary is empty; "" otherwise."""
    problems: tuple[Problem, ...] = ()


class Sibling(Section, frozen=True, kw_only=True):
    """One of several checkpoints of a run, by its headers, norms and optimizer's state."""

    name: str
    """Of its directory."""
    steps: int | None = None
    bytes: int = 0
    """Of the files that hold the weights."""
    norms: int = 0
    unchanged_norms: int = 0
    """Of these, those that are all ones or all zeros."""
    moments: dict[str, int] = {}
    """dtype of the optimizer's moments -> entries."""
    entries: int = 0
    """Parameters with state."""
    nonzero_moments: int = 0
    problems: int = 0
    """Problems of its files, without notes."""
    damaged: bool = False
    """A problem of them keeps it from being loaded."""
    reason: str = ""
    """Why it could not be read."""

    @property
    def is_whole(self) -> bool:
        """Whether a run can be resumed from it, as far as the headers show."""
        return not (self.reason or self.damaged)


class Checkpoint(Section, frozen=True, kw_only=True):
    """A checkpoint's headers, norms and configuration.

    Where a problem is of kind "not-inspectable", only the sizes of the files are known.
    """

    path: str
    layout: str
    """"safetensors shards", "torchtitan checkpoint (torch.distributed.checkpoint)", ..."""
    files: Files
    contents: Contents = msgspec.field(default_factory=Contents)
    model: ModelConfig = msgspec.field(default_factory=ModelConfig)
    training: Training = msgspec.field(default_factory=Training)
    loading: Loading = msgspec.field(default_factory=Loading)
    tokenizer: Tokenizer | None = None
    """None: the directory has no tokenizer's files."""
    lora: LoraFit | None = None
    """None: the files hold no LoRA adapter with a configuration."""
    values: Values | Unknown | None = None
    """None: --deep was not requested."""
    settings: tuple[ChangedSetting, ...] = ()
    """Entries of config.json that differ from those of --baseline or --merged-from."""
    movement: Movement | Unknown | None = None
    """Which parameters changed since --baseline; None: no --baseline."""
    merge: Merge | Unknown | None = None
    """The adapters beside --merged-from, or beside this model; None: no --adapter."""
    equality: Equality | Unknown | None = None
    """The values beside those of --equals; None: no --equals."""
    continuation: Continuation | Unknown | None = None
    """What a run that continues from it finds; None: no --continue."""
    problems: tuple[Problem, ...] = ()
    siblings: tuple[Sibling, ...] = ()
    """The checkpoints of the run, oldest first, where a directory above them was named: the last
    one is this one."""
    seconds: float = 0.0

    @property
    def not_inspectable(self) -> str | None:
        """Why its contents could not be read, so that they cannot be judged."""
        for problem in self.problems:
            if problem.kind == "not-inspectable":
                return problem.message
        return None
