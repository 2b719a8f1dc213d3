"""Records of a run, a driver with its GPUs, and directories, without thresholds.

A section that could not be read is `Unknown`; one that the job does not need is None. Sizes are
bytes and times seconds unless a name states otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from doctor._util.records import Ended, Section
from doctor._util.text_fields import Arguments, Identifier, Product


class Examination(Section, frozen=True, kw_only=True):
    """The run that recorded the facts."""

    started: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    """UTC: 2026-01-31T09:05:00Z."""
    command: Arguments = ()
    """Words of the command line, without secrets."""
    stages: dict[str, float] = {}
    """Activity -> seconds until the next one began; some parts run in the background of others."""


class Driver(Section, frozen=True, kw_only=True):
    """How NVML and CUDA start, each in a process of its own."""

    nvml: Ended
    """nvmlInit and the queries after it; `detail` names the call that failed or hung."""
    cuda: Ended
    """cuInit through libcuda.so.1; `code` is the CUresult."""
    version: Product | None = None
    cuda_version: int | None = None
    """1000 * major + 10 * minor, as NVML and cuDriverGetVersion give it."""
    blocked: Literal["in the kernel", "twice", "once"] | None = None
    """Where a call did not return within its deadline. In the kernel: it waited in state D without
    CPU time. Twice: in two starts, one after the other. Once: a second start answered, or none was
    made because the budget of the run was spent."""
    first_start: str = ""
    """How the first of two starts ended."""
    confidential: bool | None = None
    """Confidential computing is on: the driver starts slowly, and copies are encrypted."""
    unusable_nodes: dict[str, str] | None = None
    """/dev/nvidiactl and /dev/nvidia-uvm -> why this process cannot use them; {} if it can, None if
    it was not tried: only where cuInit returned an error.
    """
    unlisted_gpus: dict[str, str] | None = None
    """Addresses of GPUs that the driver holds and NVML does not list -> why their device node does
    not open, "" if it does; None: not tried."""
    nvml_library: Identifier | None = None
    """The libnvidia-ml that was loaded, links resolved; recorded if its version does not match."""
    nvml_mounted: bool | None = None
    """Whether that file is mounted into the container from the host."""


class Slice(Section, frozen=True, kw_only=True):
    """One MIG device."""

    uuid: Identifier
    name: Product = ""
    memory_total: int | None = None
    memory_used: int | None = None


class Gpu(Section, frozen=True, kw_only=True):
    """One GPU as NVML reports it. A field that NVML does not report is None and in `unread`."""

    index: int
    uuid: Identifier
    name: Product
    bus_id: Identifier = ""
    capability: tuple[int, int] | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    """Used by all processes before torch starts, without the driver's reserve (version 2)."""
    held: int | None = None
    """Bytes of `memory_used` that the process holds itself that called the doctor from Python."""
    compute_mode: int | None = None
    """0 default, 2 prohibited, 3 exclusive process."""
    processes: int | None = None
    """Compute processes that NVML lists; often none in a container."""
    display_active: bool | None = None
    """A desktop is initialized on it."""
    persistence: bool | None = None
    """Whether the driver keeps the GPU initialized while no process uses it."""
    mig: bool | None = None
    slices: tuple[Slice, ...] = ()
    ecc: bool | None = None
    pci_id: int | None = None
    """Device id of PCI."""
    vbios: Product | None = None
    """Version of the GPU's firmware."""
    cores: int | None = None
    """CUDA cores of the whole GPU."""
    power_limit: int | None = None
    """Milliwatts that the GPU may draw now."""
    power_limit_default: int | None = None
    """Milliwatts after a reset."""
    uncorrected: int | None = None
    """Volatile uncorrected memory errors (since the driver was loaded)."""
    corrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    remap_banks: tuple[int, ...] | None = None
    """Banks by the rows that they can still remap: all, most, some, few, none."""
    sram_threshold: bool | None = None
    """More errors in SRAM since the GPU was made than NVIDIA accepts."""
    fabric: int | None = None
    """State of the NVLink fabric: 0 not supported, 1 not started, 2 in progress, 3 completed."""
    retired_pages_pending: bool | None = None
    recovery_action: int | None = None
    """0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset, 5 recover IMEX domain,
    6 bus reset, 7 system reboot."""
    diagnosed: str = ""
    """The fault that another tool's test of the hardware or a kernel met, in a pasted report."""
    lost: str | None = None
    """NVML's message where the GPU fell off the bus or requires a reset."""
    unread: dict[str, str] = {}
    """Field -> NVML's reason."""

    @property
    def forbidden(self) -> bool:
        """NVML counts it, but this process may not open it (cgroups of Slurm, for example)."""
        return not self.uuid and self.unread.get("uuid", "").endswith("(4)")

    @property
    def address(self) -> str:
        """On the PCI bus, as sysfs and the kernel log spell it: "0000:3b:00.0"."""
        domain, _, rest = self.bus_id.lower().partition(":")
        return f"{domain[-4:]}:{rest}" if rest else ""

    @property
    def unnumbered(self) -> bool:
        """A report has its address alone: its number is not known, and its name is not."""
        return not self.name and bool(self.address) and self.uuid == self.address

    @property
    def power_lowered(self) -> bool:
        """Somebody set the power limit below the GPU's own default."""
        limit, default = self.power_limit, self.power_limit_default
        return limit is not None and default is not None and limit < default

    def lacks(self, field: str) -> bool:
        """NVML does not support this field on this GPU, as opposed to a reading that failed."""
        return self.unread.get(field, "").startswith("Not Supported")


class Place(Section, frozen=True, kw_only=True):
    """A directory that the job writes to, or that [expect] states a minimum of free space for."""

    role: Literal["output", "cache", "temporary", "expected"]
    path: str
    named: bool = False
    """The user named it with --output-dir."""
    looked: Ended
    """How examining it ended: a dead network mount does not respond."""
    exists: bool | None = None
    """False: it does not exist yet; the other fields are those of its nearest existing parent."""
    nearest: str | None = None
    """The directory, or its nearest existing parent: the sizes below are of this one."""
    filesystem: str | None = None
    """Type of the mount: ext4, overlay, tmpfs, nfs4."""
    total: int | None = None
    free: int | None = None
    """Bytes that this user can write."""
    inodes: int | None = None
    """0: this file system has no inode limit."""
    inodes_free: int | None = None
    writable: bool | None = None
    wrote: Ended | None = None
    """write + fsync + delete; None: not done (only directories that the user named are written)."""
