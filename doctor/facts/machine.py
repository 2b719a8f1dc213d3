"""Records of a machine, without thresholds.

A section that could not be read is `Unknown`; one that the job does not need is None. Sizes are
bytes and times seconds unless a name states otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from doctor._util.records import Ended, Section
from doctor._util.text_fields import Arguments, Identifier, Product
from doctor.hardware.vendors import NVIDIA


class Examination(Section, frozen=True, kw_only=True):
    """The run that recorded the facts."""

    started: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    """UTC: 2026-01-31T09:05:00Z."""
    command: Arguments = ()
    """Words of the command line, without secrets."""
    stages: dict[str, float] = {}
    """Activity -> seconds until the next one began; some parts run in the background of others."""


class KernelEvent(Section, frozen=True, kw_only=True):
    """A line of the NVIDIA driver in the kernel log, without the names of processes."""

    address: Identifier = ""
    """Of the GPU on the PCI bus, "0000:3b:00.0"; "" where the line names none."""
    xid: int | None = None
    text: Product = ""
    """What the line says, where it is no Xid."""
    action: int | None = None
    """The recovery action that Xid 154 reports, as `Gpu.recovery_action` counts them."""
    fatal: bool | None = None
    """The severity that an NVLink 5 error has; None: the line has none."""


class Reported(Section, frozen=True, kw_only=True):
    """A line that has the message of a row of `doctor.errors`."""

    cause: Product
    """The row's id."""
    line: str


class Hca(Section, frozen=True, kw_only=True):
    """One port of an InfiniBand or RoCE adapter, from /sys/class/infiniband."""

    name: Product
    """ "mlx5_0"; with a number after the first port: "mlx5_0/2"."""
    state: Product = ""
    """ "ACTIVE", "DOWN", "INIT"."""
    rate: Product = ""
    """ "400 Gb/sec (4X NDR)"."""
    link_layer: Product = ""
    """ "InfiniBand" or "Ethernet"."""
    firmware: Product = ""


class PcieDevice(Section, frozen=True, kw_only=True):
    """Errors of a link, as a GPU or the port above it reported them since boot."""

    address: Identifier
    gpu: Identifier
    """Address of the GPU; for a GPU its own."""
    fatal: int
    nonfatal: int
    """Uncorrectable errors, without requests that are not supported or that ACS refused."""
    new_fatal: int = 0
    """During the run."""
    new_nonfatal: int = 0
    acs_redirects: bool | None = None
    """Of a port: access control sends peer traffic up to the root complex; None: not readable."""


class Host(Section, frozen=True, kw_only=True):
    """The operating system and its limits, read from procfs and sysfs only."""

    system: Product
    name: Identifier = ""
    """The host's name, recorded so that reports can redact it."""
    user: Identifier = ""
    """The user's name, for the same reason."""
    home: str = ""
    """The user's home directory, for the same reason."""
    release: Product = ""
    arch: Product = ""
    macos: tuple[int, int] | None = None
    nvidia_devices: int = 0
    """NVIDIA display or 3D controllers on the PCI bus."""
    amd_devices: int = 0
    gpus_on_bus: dict[str, int] = {}
    """GPUs by the name of their vendor in `doctor.hardware.vendors`, these two included."""
    gpu_drivers: dict[str, str] = {}
    """Addresses of NVIDIA's GPUs on the bus -> the kernel driver that each is bound to, "" if to
    none."""
    gpu_ids: dict[str, int] = {}
    """The same addresses -> device ids of PCI."""
    pci_listed: bool = True
    """Whether the PCI bus could be listed; if not, the counts of devices mean nothing."""
    device_nodes: tuple[str, ...] = ()
    """/dev/nvidia*, /dev/dxg (WSL), /dev/kfd."""
    unusable_amd_nodes: dict[str, str] | None = None
    """/dev/kfd and /dev/dri/renderD* -> why this user cannot use them; {} if all can be used, None
    if there is no AMD GPU or they were not tried."""
    kernel_driver: Product | None = None
    """Version of the loaded NVIDIA kernel module, from /proc/driver/nvidia/version."""
    container: str | None = None
    sandbox: Product | None = None
    """A kernel that is not the machine's own: WSL2, gVisor, a microVM; None: not recognized."""
    mps: bool | None = None
    """Whether a daemon of CUDA's multi-process service has its pipe here; None: not recorded."""
    iommu_groups: int | None = None
    """Groups in /sys/kernel/iommu_groups: 0 with the IOMMU off; None: it is not readable."""
    pcie: tuple[PcieDevice, ...] | None = None
    """NVIDIA's GPUs and the ports above them; () where the kernel counts no errors of theirs."""
    steal: float | None = None
    """Share of the processors' time since boot that a host gave to other virtual machines."""
    core_speed: tuple[float, float] | None = None
    """Rounds of SHA-512 per second of one core's time, measured twice."""
    busy: float | None = None
    """Processes that ran or waited, per processor, in the last minute."""
    clock_service: Product | None = None
    """The program that told the offset of the clock; "" where none answers, None: not asked."""
    clock_offset: float | None = None
    """Seconds, without a sign; None: the service has no measurement."""
    env: dict[str, str] = {}
    """Variables on the allow-list only (`doctor.collect.host.RECORDED`)."""
    memory_total: int | None = None
    memory_available: int | None = None
    cgroup: Literal["v1", "v2"] | None = None
    """Version of the control groups that the limits were read from; None: none could be read."""
    cgroup_memory_limit: int | None = None
    """None: no limit, or not read (see `cgroup`)."""
    cgroup_memory_used: int | None = None
    """Of the group with that limit, without the reclaimable file cache."""
    cpus: int | None = None
    """Processors in this process's affinity mask."""
    cgroup_cpus: float | None = None
    """The cgroup's CPU quota, in processors."""
    shm_total: int | None = None
    """Size of /dev/shm; None: there is none."""
    kernel_events: tuple[KernelEvent, ...] | None = None
    """Errors of GPUs in the kernel log since the driver was loaded; None: it is not readable."""
    reported: tuple[Reported, ...] | None = None
    """Lines of the driver in the kernel log, or of a pasted text, that name a known fault; None: no
    such text could be read."""
    hcas: tuple[Hca, ...] | None = None
    """Ports of InfiniBand and RoCE adapters; () where there are none, None: not read."""
    mac_addresses: tuple[Identifier, ...] | None = None
    """Of network devices on a bus; virtual ones are left out."""
    limits: dict[str, int | None] | None = None
    """Soft limits of this process by the names of `ulimit`: a None in it is unlimited."""

    @property
    def jetson(self) -> bool:
        """A Jetson, whose GPU is on no PCI bus: its kernel is named 5.15.148-tegra."""
        return self.release.endswith("-tegra")

    @property
    def wsl(self) -> bool:
        """Linux under Windows, which owns the GPU."""
        return (self.sandbox or "").startswith("WSL")

    @property
    def surely_nvidia(self) -> bool:
        """NVIDIA hardware or its device nodes are present."""
        nodes = any(map(NVIDIA.owns, self.device_nodes))
        return self.nvidia_devices > 0 or nodes or self.jetson

    @property
    def has_nvidia(self) -> bool:
        """The same, or WSL's device node, which is for a GPU of any vendor."""
        return self.surely_nvidia or any("dxg" in node for node in self.device_nodes)

    @property
    def visible_devices(self) -> str | None:
        """CUDA_VISIBLE_DEVICES; None: not set."""
        return self.env.get(NVIDIA.visible[0])


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
    fabric_error: int | None = None
    """NVML's code of how the registration with the fabric ended; 0: well."""
    retired_pages_pending: bool | None = None
    recovery_action: int | None = None
    """0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset, 5 recover IMEX domain,
    6 bus reset, 7 system reboot."""
    diagnosed: str = ""
    """The fault that another tool's test of the hardware found, in a pasted report."""
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
    def power_lowered(self) -> bool:
        """Somebody set the power limit below the GPU's own default."""
        limit, default = self.power_limit, self.power_limit_default
        return limit is not None and default is not None and limit < default

    def lacks(self, field: str) -> bool:
        """NVML does not support this field on this GPU, as opposed to a reading that failed."""
        return self.unread.get(field, "").startswith("Not Supported")


class Interpreter(Section, frozen=True, kw_only=True):
    """The Python that trains, and how importing torch there ended."""

    path: Identifier
    chosen: str
    """Why this interpreter: --python, VIRTUAL_ENV, ..."""
    version: Product = ""
    importing: Ended
    traceback: str = ""
    """The last lines of stderr of a failed import."""
    pip: bool | None = None
    """Whether it can import pip; environments made by uv cannot."""
    uv: bool | None = None
    """Whether the command uv is on this machine's PATH; recorded where there is no pip."""
    packages: tuple[Product, ...] = ()
    """Installed distributions of NVIDIA's libraries: "nvidia-nccl-cu12==2.27.3"."""
    installed: tuple[Product, ...] | None = None
    """All installed distributions, spelt in the same way; None: not recorded."""
    torch_path: str | None = None
    """The file that `import torch` takes; recorded if the import failed."""


class Torch(Section, frozen=True, kw_only=True):
    """Properties of torch after the import, before any CUDA call."""

    version: Product
    cuda: Product | None = None
    hip: Product | None = None
    archs: tuple[Product, ...] = ()
    """Code in the build: "sm_90", "compute_90", "gfx942"."""
    tf32_matmul: bool | None = None
    tf32_api: Literal["fp32_precision", "allow_tf32"] = "fp32_precision"
    """The API of this version: fp32_precision from 2.9 on."""
    sdp_enabled: dict[str, bool] = {}
    """Backend (flash, mem_efficient, cudnn, math) -> its switch."""
    cudnn: int | None = None
    """torch.backends.cudnn.version(), e.g. 91900."""
    cudnn_error: str | None = None
    """The error of reading the version: cuDNN checks its libraries then."""
    mps: bool | None = None


class TorchGpu(Section, frozen=True, kw_only=True):
    """One GPU as torch reports it, and whether a kernel ran there and its result was read back."""

    index: int
    uuid: Identifier | None
    name: Product
    capability: tuple[int, int]
    memory_total: int
    integrated: bool = False
    units: int | None = None
    """Streaming multiprocessors, or compute units of AMD, that this process may use."""
    gfx: Product | None = None
    """ROCm's name of an AMD GPU's architecture: "gfx1100", "gfx90a"."""
    kernel: Ended | None = None
    """None: no kernel was run."""

    @property
    def ran(self) -> bool:
        """A kernel ran there and its result was read back."""
        return self.kernel is not None and self.kernel.ok


class Cuda(Section, frozen=True, kw_only=True):
    """torch's view after its first CUDA call."""

    started: Ended
    gpus: tuple[TorchGpu, ...] = ()
    sdp_priority: tuple[int, ...] | None = None
    """torch.nn.attention.SDPBackend values, first choice first, read after one SDPA call."""


class Libraries(Section, frozen=True, kw_only=True):
    """CUDA libraries: those mapped after kernels ran, and those that the environment offers."""

    loaded: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    """In directories of LD_LIBRARY_PATH or in LD_PRELOAD, links resolved."""
    used: Ended | None = None
    """The matmul and the attention call before the libraries were listed; None: not recorded."""


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
