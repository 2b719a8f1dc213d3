"""The operating system, its limits and what the kernel and its buses report, without thresholds."""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Section
from doctor._util.text_fields import Identifier, Product
from doctor.hardware.vendors import NVIDIA


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
    loads: int = 0
    """Earlier loads of the driver in which a pasted log has it; 0: it is of the last one."""


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


def wsl_of(release: str) -> str | None:
    """The WSL whose kernel is named so: WSL1 emulates one, "4.4.0-19041-Microsoft"."""
    if "microsoft" not in release.lower():
        return None
    return "WSL1" if "Microsoft" in release else "WSL2"
