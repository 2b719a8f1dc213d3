"""What the card did under load: attention kernels, matmuls, copies, and what NVML saw meanwhile.

Frozen records like those of `doctor.facts.machine`, and no thresholds here either.
"""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Ended, Number, Section

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
    """What the mask is, in words; "" = none."""
    dropout: float = 0.0
    trigger: str = ""
    """The source of the known bug that this shape provokes; "" = an ordinary shape."""
    job: bool = False
    """The shape that the user named."""
    judged: Literal["error", "finite"] = "error"
    """finite: no right answer is known (dropout), or it differs between versions of torch."""
    note: str = ""
    """How the user's shape was cut, and how much of it was compared."""
    left_out: bool = False
    """It was not tried; the note says why."""


class Trial(Section, frozen=True, kw_only=True):
    """One backend in one dtype on one case: forward and backward against a float64 reference."""

    backend: Backend
    dtype: Literal["bf16", "fp16"]
    case: str
    ended: Ended
    refused: str | None = None
    """Why it was not taken here, in torch's own words where they are; None: it was."""
    errors: dict[str, Number] = {}
    """Relative Frobenius error of output, dq, dk, dv."""
    nonfinite: dict[str, int] = {}
    """Non-finite elements of output, dq, dk, dv, where there are any."""


class Implementation(Section, frozen=True, kw_only=True):
    """One attn_implementation of transformers on a tiny model, against eager in fp32."""

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
    """ "case/dtype" -> the backend that torch takes when nothing is switched."""
    lowest_lse: dict[str, Number] = {}
    """ "case/dtype" -> the lowest log-sum-exp of a row of logits, in float64."""
    implementations: tuple[Implementation, ...] = ()
    cut_short: str = ""
    """Why trials are missing at the end, "" if none are."""
    seconds: float = 0.0


class Watched(Section, frozen=True, kw_only=True):
    """One GPU while the steps ran: sampled clocks, and counters after less before.

    A counter that NVML would not tell is None and stands in `unread`.
    """

    uuid: str
    samples: int
    mask: int
    """All sampled bits of the clocks' event reasons, ORed."""
    temperature: int | None = None
    """Highest sampled, in degrees Celsius."""
    uncorrected: int | None = None
    """Uncorrected memory errors that came during the run."""
    corrected: int | None = None
    remapped_rows: int | None = None
    pcie_replays: int | None = None
    nvlink_errors: int | None = None
    """CRC, replay and recovery errors of all links."""
    nvlinks_down: int | None = None
    """Links that are not active beside others that are; None: it has none, or none is in use."""
    xids: tuple[int, ...] | None = None
    """Xid events of the driver; None: the events could not be listened to."""
    link: tuple[int, int] | None = None
    """Highest PCIe generation and width sampled; a link that idles drops its generation."""
    link_max: tuple[int, int] | None = None
    """What the GPU in this slot could do at most."""
    unread: dict[str, str] = {}


class Load(Section, frozen=True, kw_only=True):
    """One device under load. Rates are medians over the seconds that the load ran."""

    device: str
    uuid: str | None
    name: str
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
    """The same half-precision product, computed so often."""
    differing: int | None = None
    """Elements in which any of them differs from the first; None: not compared."""
    unread: dict[str, str] = {}
    """Field -> why it was not measured."""
    seconds: float = 0.0


class PeerCopy(Section, frozen=True, kw_only=True):
    """A buffer that one GPU wrote into another's memory through IPC, and what was read there."""

    source: int
    target: int
    ended: Ended
    wrong: int | None = None
    """Elements that arrived with another value; None: not compared."""
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
    """GPUs talking to each other."""

    copies: tuple[PeerCopy, ...] = ()
    reductions: tuple[AllReduce, ...] = ()
