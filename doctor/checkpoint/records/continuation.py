"""What a checkpoint has for a run to be continued from it, and how that is planned."""

from __future__ import annotations

from doctor._util.records import Section


class Plan(Section, frozen=True, kw_only=True):
    """How the run is to be continued. None: not named."""

    gpus: int | None = None
    script: str = ""
    """The file that the next ones were read from."""
    max_steps: int | None = None
    epochs: float | None = None
    batch_size: int | None = None
    """Samples per GPU and step."""
    accumulation: int | None = None
    precision: str | None = None
    """"fp16" or "bf16" """
    packages: dict[str, str] = {}
    """Distributions of the environment -> versions."""


class Continuation(Section, frozen=True, kw_only=True):
    """One checkpoint as the framework that wrote it would load it."""

    framework: str
    """"transformers Trainer", "accelerate", "Lightning", ...; "" for none that is known."""
    pieces: dict[str, str] = {}
    """optimizer, scheduler, scaler, random state, loop state -> the file that holds it, or ""."""
    unread: dict[str, str] = {}
    """Piece -> why its file could not be read."""
    ranks: int | None = None
    """Processes that wrote it, as far as their files show."""
    reshards: bool = True
    """Another number of processes can load it."""
    random_ranks: int | None = None
    """Processes for which there is a random state."""
    counts: dict[str, int] = {}
    """Where a number of steps is kept -> the number."""
    epoch_scheduler: bool = False
    """The scheduler counts epochs or evaluations, not steps."""
    scheduler_end: int | None = None
    """The last step of a schedule that knows it."""
    one_cycle: bool = False
    """A schedule that raises behind its end."""
    max_steps: int | None = None
    epochs: float | None = None
    batch_size: int | None = None
    """Samples per GPU and step, of the run."""
    best_gone: str = ""
    """The best checkpoint by the Trainer's state, where others of the run are there and it is not;
    "" otherwise."""
    last_lr: tuple[float, ...] = ()
    """The rates of the groups, as the scheduler last set them."""
    scale: float | None = None
    """The scaler's."""
    versions: dict[str, str] = {}
    """Package -> the version that wrote the files."""
    numpy_core: bool = False
    """A pickle names numpy._core, which numpy has since 1.26."""
    plan: Plan = Plan()
    requested: bool = True
    """By --continue; otherwise its counts of steps were read alone to be compared."""
