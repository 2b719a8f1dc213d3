"""The vendors of GPUs: how the system names their devices, and how a job selects them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

TargetKind = Literal["nvidia", "rocm", "mps", "cpu"]
"""What a job trains on."""

DISPLAY, OTHER_DISPLAY, ACCELERATOR = "03", "0380", "12"
"""How PCI classes begin: displays, those without VGA or 3D, and processing accelerators."""


class Vendor(NamedTuple):
    """One vendor. What it has no name for is empty."""

    name: str
    target: TargetKind | None
    """What a job on its GPUs trains on; None: the doctor has no probes for it yet."""
    device: str
    """The type of torch.device."""
    pci: int | None = None
    classes: tuple[str, ...] = ()
    """How the PCI classes of its GPUs begin."""
    nodes: tuple[str, ...] = ()
    """Patterns of device nodes in /dev."""
    visible: tuple[str, ...] = ()
    """Variables that select GPUs; the first one is torch's own."""
    variables: tuple[str, ...] = ()
    """Other variables that change what its libraries do, and hold no secret."""
    tool: str = ""
    """The command that lists its GPUs."""

    def owns(self, node: str) -> bool:
        """Whether a path such as /dev/nvidia0 is a node of its devices."""
        return any(fnmatchcase(node.removeprefix("/dev/"), pattern) for pattern in self.nodes)


NVIDIA = Vendor(
    "NVIDIA",
    "nvidia",
    "cuda",
    pci=0x10DE,
    classes=(DISPLAY,),
    nodes=("nvidia*",),
    visible=("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    variables=("CUDA_DEVICE_ORDER", "NVIDIA_TF32_OVERRIDE"),
    tool="nvidia-smi",
)
AMD = Vendor(
    "AMD",
    "rocm",
    "cuda",
    pci=0x1002,
    classes=(DISPLAY, ACCELERATOR),  # Instinct is an accelerator
    nodes=("kfd",),
    visible=("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    variables=("HSA_OVERRIDE_GFX_VERSION", "PYTORCH_HIP_ALLOC_CONF"),
    tool="amd-smi",
)
INTEL = Vendor(
    "Intel",
    None,
    "xpu",
    pci=0x8086,
    classes=(OTHER_DISPLAY,),  # its other display controllers are in every laptop
    visible=("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"),
    tool="xpu-smi",
)
APPLE = Vendor("Apple", "mps", "mps")

VENDORS = (NVIDIA, AMD, INTEL, APPLE)

TARGETS: tuple[TargetKind, ...] = (
    *(vendor.target for vendor in VENDORS if vendor.target is not None),
    "cpu",
)
"""What a job may train on."""
ON_CUDA = tuple(vendor.target for vendor in VENDORS if vendor.target and vendor.device == "cuda")
"""Of them, those whose GPUs torch calls cuda."""
DEVICES: dict[str, str] = {"cpu": "cpu"} | {v.target: v.device for v in VENDORS if v.target}
"""What a job trains on -> the type of torch.device."""
SHARED_NODES = ("dxg",)
"""WSL's device node, which is for a GPU of any vendor."""


def is_gpu_node(name: str) -> bool:
    """Whether a name in /dev is that of a GPU."""
    return name in SHARED_NODES or any(vendor.owns(name) for vendor in VENDORS)


def variables() -> frozenset[str]:
    """The variables of all vendors."""
    return frozenset(name for vendor in VENDORS for name in (*vendor.visible, *vendor.variables))


def vendor_of(pci: int | None, kind: int | None) -> Vendor | None:
    """The vendor of a GPU by PCI vendor and class (24 bits); None for another device."""
    digits = "" if kind is None else f"{kind:06x}"
    owners = (v for v in VENDORS if v.pci is not None and v.pci == pci)
    return next((vendor for vendor in owners if digits.startswith(vendor.classes)), None)
