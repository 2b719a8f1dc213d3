"""Records of GPUs under load: attention kernels, matmuls, copies and NVML's counters.

Frozen and without thresholds, as in `doctor.facts.machine`.
"""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Ended, Number, Section
from doctor._util.text_fields import Identifier, Product

LEFT_OUT = "left out"
"""How the reason begins where the doctor did not run a test."""

NOT_TRIED = "not tried: "
"""How `Trial.refused` begins where the doctor, not torch, left a trial out."""

Backend = Literal["flash", "mem_efficient", "cudnn", "math"]


class AttentionCase(Section, frozen=True, kw_only=True):
    """One shape of scaled_dot_product_attention, in elements."""

    name: str
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_dim: int
    causal: bool = False
    mask: str = ""
    """Description of the mask; "" = none."""
    dropout: float = 0.0
    trigger: str = ""
    """The source of the known bug that this shape triggers; "" = an ordinary shape."""
    job: bool = False
    """The shape of the user's own attention."""
    judged: Literal["error", "finite"] = "error"
    """finite: there is no reference (dropout), or it differs between versions of torch."""
    note: str = ""
    """How the user's shape was reduced, and how much of it was compared."""
    left_out: bool = False
    """It was not run; the note states why."""


class Trial(Section, frozen=True, kw_only=True):
    """One backend in one dtype on one case: forward and backward against a float64 reference."""

    backend: Backend
    dtype: Literal["bf16", "fp16"]
    case: str
    ended: Ended
    refused: str | None = None
    """Why torch does not use it here, in torch's own words if there are any; None: it does."""
    errors: dict[str, Number] = {}
    """Relative Frobenius error of output, dq, dk, dv."""
    nonfinite: dict[str, int] = {}
    """Non-finite elements of output, dq, dk, dv, where there are any."""


class Implementation(Section, frozen=True, kw_only=True):
    """One attn_implementation of transformers on a small model, against eager in fp32."""

    name: str
    ended: Ended
    error: Number | None = None
    """Relative Frobenius error of the logits."""
    grad_error: Number | None = None
    """The largest among the gradients of attention's projections."""


class Attention(Section, frozen=True, kw_only=True):
    """The attention trial."""

    device: str
    cases: tuple[AttentionCase, ...]
    trials: tuple[Trial, ...]
    defaults: dict[str, str] = {}
    """ "case/dtype" -> the backend that torch selects by default."""
    lowest_lse: dict[str, Number] = {}
    """ "case/dtype" -> the lowest log-sum-exp of a row of logits, in float64."""
    implementations: tuple[Implementation, ...] = ()
    cut_short: str = ""
    """Why trials are missing at the end, "" if none are."""
    seconds: float = 0.0
    others: tuple[Attention, ...] = ()
    """The first case on the job's other GPUs, in the job's precision, and their part of the other
    cases, which are in `trials` too if they are correct."""


class OtherProcess(Section, frozen=True, kw_only=True):
    """A process that does not belong to the watched training and computes on its GPU."""

    pid: int
    name: str
    samples: int
    memory: int | None = None
    """The most sampled, in bytes; None: NVML does not report it."""


class Use(Section, frozen=True, kw_only=True):
    """Who used a GPU while a training ran, and its memory."""

    samples: int
    with_training: int = 0
    """Samples in which NVML's list had a process of the training; others count only there."""
    others: tuple[OtherProcess, ...] = ()
    memory: tuple[int, ...] = ()
    """The lowest use of each window, in bytes, of all processes; at most 16 windows."""
    window_seconds: float = 0.0
    memory_total: int | None = None
    unread: dict[str, str] = {}
    """ "memory", "processes" -> why they are not known."""


class Watched(Section, frozen=True, kw_only=True):
    """One GPU while the steps ran: sampled clocks, and the increase of counters.

    A counter that NVML does not report is None and in `unread`.
    """

    uuid: str
    samples: int
    mask: int
    """All sampled bits of the clocks' event reasons, ORed."""
    temperature: int | None = None
    """Highest sampled, in degrees Celsius."""
    uncorrected: int | None = None
    """Uncorrected memory errors during the run."""
    corrected: int | None = None
    remapped_rows: int | None = None
    pcie_replays: int | None = None
    nvlink_errors: int | None = None
    """CRC, replay and recovery errors of all links; of NVLink 5 those that no link corrects."""
    nvlinks_down: int | None = None
    """Inactive links where others are active; None: it has none, or none is in use."""
    xids: tuple[int, ...] | None = None
    """Xid events of the driver; None: not available."""
    clock: int | None = None
    """Highest sampled clock of the multiprocessors, in MHz."""
    link: tuple[int, int] | None = None
    """Highest PCIe generation and width sampled; an idle link lowers its generation."""
    link_max: tuple[int, int] | None = None
    """Maximum of the GPU in this slot."""
    use: Use | None = None
    """Sampled by `doctor guard --all` only."""
    unread: dict[str, str] = {}


class Load(Section, frozen=True, kw_only=True):
    """One device under load. Rates are medians over the seconds that the load ran."""

    device: str
    uuid: Identifier | None
    name: Product
    ended: Ended
    matmul: dict[str, float] = {}
    """ "bf16" ("fp16" before Ampere), "tf32", "fp32" -> FLOP/s of a square product."""
    size: int = 0
    """Rows of the square matrices."""
    copy: float | None = None
    """Bytes per second read and written by a copy within the device's memory."""
    to_device: float | None = None
    """Bytes per second from pinned host memory."""
    from_device: float | None = None
    products: int = 0
    """How many times the same half-precision product was computed."""
    differing: int | None = None
    """Elements that differ from the first product in any other; None: not compared."""
    differing_again: int | None = None
    """The same in a second series, computed only if any differ in the first."""
    measured: int = 1
    """How many times: the rates are the highest of them."""
    unread: dict[str, str] = {}
    """Field, or name of a rate, -> why it was not measured."""
    seconds: float = 0.0

    @property
    def left_out(self) -> bool:
        """The load was not started; `ended` states why."""
        return self.ended.detail.startswith(f"{LEFT_OUT}: ")


class MemoryTest(Section, frozen=True, kw_only=True):
    """Patterns written to the memory of one GPU and read back."""

    device: str
    uuid: Identifier | None
    name: Product
    ended: Ended
    unsuited: str = ""
    """Why this GPU is of a kind that is not tested; "": it is none."""
    free: int | None = None
    """Bytes that were free before it."""
    tried: int | None = None
    """Bytes that were written and read back."""
    patterns: int = 0
    """Patterns that were written to all of them and read back."""
    wrong: int | None = None
    """Words of 64 bits that were read back with another value; None: not compared."""
    wrong_again: int | None = None
    """The same when the first part with a wrong word was read once more; None: none was wrong."""
    example: str = ""
    """The first wrong word: its place, what was written and what was read."""
    cut_short: str = ""
    """Why it ended before all patterns; "": it did not."""
    seconds: float = 0.0


class PeerCopy(Section, frozen=True, kw_only=True):
    """A buffer that one GPU wrote into another's memory through IPC, read back there."""

    source: int
    target: int
    ended: Ended
    wrong: int | None = None
    """Elements with a wrong value; None: not compared."""
    rate: float | None = None
    """Bytes per second."""


class AllReduce(Section, frozen=True, kw_only=True):
    """One all-reduce over all GPUs of the job."""

    backend: str
    p2p: bool
    """False: with NCCL_P2P_DISABLE=1."""
    ended: Ended
    ranks: int
    wrong: int | None = None
    """Elements of the sum that are wrong; None: no result."""
    rate: float | None = None
    """Bus bandwidth in bytes per second."""


class Peers(Section, frozen=True, kw_only=True):
    """Communication between GPUs."""

    copies: tuple[PeerCopy, ...] = ()
    reductions: tuple[AllReduce, ...] = ()
    unread: dict[str, str] = {}
    """ "copies", "reductions" -> why there are none."""
