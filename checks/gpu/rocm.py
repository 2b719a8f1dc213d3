"""Why ROCm offers no GPU, or fewer than the job needs."""

from __future__ import annotations

import re

from doctor._util.records import Unknown
from doctor.errors.match import first
from doctor.facts.host import Host
from doctor.hardware.vendors import AMD
from doctor.judge.check import Verdict, fail
from doctor.judge.known_errors import NO_HIP_CODE, PATTERNS, fail_by

SELECTING = (*AMD.visible, "CUDA_VISIBLE_DEVICES")
OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
ROWS = (
    "rocm-no-gpu",
    "rocm-device-denied",
    "hip-architecture",
    "gpu-not-visible",
    "cuda-unavailable",
)
NODES = ("ls -l /dev/kfd /dev/dri/renderD*", "id")
LISTS = ("rocminfo | grep -E 'Agent|gfx'", "amd-smi list")
IN_CONTAINER = "--device=/dev/kfd --device=/dev/dri --group-add video --group-add render"
MISSING = (
    f"ROCm needs /dev/kfd: start a container with {IN_CONTAINER}; on the host, load the kernel "
    "module amdgpu (sudo modprobe amdgpu). The kernel log says why it does not start."
)
DENIED = (
    "Add this user to the groups render and video (sudo usermod -aG render,video USER), then log "
    f"in again. In a container: start it with {IN_CONTAINER}. Under a scheduler: request the GPUs."
)
REFUSED = (
    "The kernel refuses /dev/kfd, and not for want of permission: the module amdgpu does not "
    "support this GPU, did not start it, or is older than ROCm. The kernel log says which; upgrade "
    "the kernel or AMD's amdgpu driver."
)
IN_WSL = (
    "WSL has no /dev/kfd: ROCm 7.1 or newer reaches the GPU through /dev/dxg with AMD's driver for "
    "Windows and the library librocdxg, which HSA_ENABLE_DXG_DETECTION=1 loads. An older "
    "libhsa-runtime64.so, such as Ubuntu's own package, knows no /dev/dxg and must not be found "
    "first. rocminfo has to list the GPU before torch can see it."
)
PERMISSION = re.compile(r"permi(?:tted|ssion)", re.IGNORECASE)
ABSENT = re.compile(r"No such file|NOT loaded")
KERNEL_LOG = ("sudo dmesg | grep -iE 'amdgpu|kfd'",)
NOT_STARTED = (
    "Compare with rocminfo and amd-smi. If they list the GPU, torch's ROCm does not fit it: see "
    "TOR003. If not, the kernel log says why amdgpu does not start it (sudo dmesg | grep amdgpu)."
)


def problem(host: Host | Unknown, count: int | None, error: str | None) -> Verdict | None:
    """A failure if torch's ROCm starts no GPU. `count`: GPUs that torch sees."""
    denied = (host.unusable_amd_nodes or {}) if isinstance(host, Host) else {}
    if count or (error is None and count is None and not denied):
        return None
    row = first(error or "", (NO_HIP_CODE, *PATTERNS))
    if row is NO_HIP_CODE:
        return fail_by(row, f"torch's ROCm runs no kernel: {error}")
    if row and row.id not in ROWS:
        return None  # an option of the allocator, memory, a broken GPU: the same on both platforms
    found = f"torch sees no AMD GPU{f': {error}' if error else ''}"
    if isinstance(host, Host) and (verdict := _by_host(host, found, denied)):
        return verdict
    return fail_by(row, found) if row else fail(found, *LISTS, *NODES, fix=NOT_STARTED)


def _by_host(host: Host, found: str, denied: dict[str, str]) -> Verdict | None:
    """The cause where the host's files and variables show it."""
    if host.wsl and not denied and not any(name in host.env for name in SELECTING):
        return fail(found, LISTS[0], fix=IN_WSL, sources=("librocdxg",))
    refused = [reason for reason in denied.values() if not PERMISSION.search(reason)]
    if refused and all(map(ABSENT.search, refused)):
        return fail(f"{found}; there is no /dev/kfd", *NODES, fix=MISSING)
    if refused:
        nodes = ", ".join(f"{node}: {reason}" for node, reason in denied.items())
        return fail(f"{found} ({nodes}); /dev/kfd must open", *NODES, *KERNEL_LOG, fix=REFUSED)
    if denied:
        nodes = ", ".join(f"{node}: {reason}" for node, reason in denied.items())
        return fail(f"{found} ({nodes}); /dev/kfd must be usable", *NODES, fix=DENIED)
    if host.system == "Linux" and host.pci_listed and "/dev/kfd" not in host.device_nodes:
        return fail(f"{found}; there is no /dev/kfd", *NODES, fix=MISSING)
    if hidden := {name: host.env[name] for name in SELECTING if name in host.env}:
        return _selected(found, hidden)
    if OVERRIDE in host.env:
        return fail(
            f"{found}; {OVERRIDE}={host.env[OVERRIDE]!r} is set",
            f"unset {OVERRIDE}",
            *LISTS,
            fix=f"Unset {OVERRIDE}: with a value that does not fit this GPU, ROCm does not start "
            "it. Values that work for some GPUs are in TOR003.",
            sources=("pytorch-103973",),
        )
    return None


def too_few(summary: str, host: Host | Unknown) -> Verdict:
    """Fewer GPUs than the job needs."""
    env = host.env if isinstance(host, Host) else {}
    if hidden := {name: env[name] for name in SELECTING if name in env}:
        return _selected(summary, hidden)
    return fail(summary, *LISTS, fix="Request the missing GPUs; rocminfo lists the visible ones.")


def _selected(summary: str, hidden: dict[str, str]) -> Verdict:
    values = ", ".join(f"{name}={value!r}" for name, value in hidden.items())
    return fail(
        f"{summary}; {values}",
        f"unset {' '.join(hidden)}",
        *LISTS,
        fix=f"Unset {' and '.join(hidden)}, or name existing GPUs: indices count what the variable "
        "above it leaves (ROCR_VISIBLE_DEVICES, then HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES).",
    )
