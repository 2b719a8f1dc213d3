"""AMD GPUs: the device nodes of ROCm, and code for an architecture."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(id="rocm-device-denied",
        errors=("RuntimeError",),
        messages=("Unable to open /dev/kfd",
            "ROCk module is NOT loaded"),
        examples=("Unable to open /dev/kfd read-write: Permission denied",
            "ROCk module is NOT loaded, possibly no GPU devices"),
        why="ROCm uses AMD's GPUs through /dev/kfd and /dev/dri/renderD*, which belong to the "
            "groups render and video.",
        fix="Permission denied: add this user to the groups render and video, then log in "
            "again. In a container: start it with --device=/dev/kfd --device=/dev/dri and both "
            "groups. Not loaded: load the kernel module amdgpu; the kernel log says why it does "
            "not start.",
        commands=("ls -l /dev/kfd /dev/dri/renderD*",
            'sudo usermod -aG render,video "$USER"',
            "sudo dmesg | grep -iE 'amdgpu|kfd'"),
        sources=("rocm-install-permissions", "rocm-2232"),
        owner=Owner.ENVIRONMENT, next_check="GPU001"),
    Cause(id="rocm-no-gpu",
        errors=("RuntimeError",),
        messages=("No HIP GPUs are available",
            "no ROCm-capable device",
            "hipErrorNoDevice"),
        examples=("RuntimeError: No HIP GPUs are available",
            "HIP error: no ROCm-capable device is detected",
            "hipGetDeviceCount: hipErrorNoDevice"),
        why="ROCm offers no GPU to this process: its device nodes cannot be opened, a variable "
            "hides the GPUs, or torch's ROCm does not support them.",
        fix="Check that this user may open /dev/kfd and /dev/dri/renderD* (groups render and "
            "video; in a container --device=/dev/kfd --device=/dev/dri), unset "
            "HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES, and compare "
            "with rocminfo.",
        commands=("rocminfo | grep -E 'Agent|gfx'",
            "ls -l /dev/kfd /dev/dri/renderD*",
            "id"),
        yields_to=("driver-module-fails",), sources=("rocm-install-permissions",),
        owner=Owner.ENVIRONMENT, next_check="GPU001"),
    Cause(id="hip-memory-fault",
        refines=("cuda-illegal-access",),
        messages=("Memory access fault by GPU node",),
        examples=("Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x7f. "
            "Reason: Page not present or supervisor privilege.",),
        why="A kernel on an AMD GPU read or wrote memory that is not there: mostly code for "
            "another architecture, or a ROCm that does not fit the kernel's driver.",
        fix="Unset HSA_OVERRIDE_GFX_VERSION, and install the torch for ROCm with code for this "
            "GPU (rocminfo shows its gfx name, TOR003 compares; new ones need the newest ROCm "
            "and amdgpu). Where torch alone works: AMD_SERIALIZE_KERNEL=3 finds the call, then "
            "replace custom kernels.",
        commands=("rocminfo | grep -E 'Marketing|gfx'",
            "AMD_SERIALIZE_KERNEL=3 python train.py"),
        owner=Owner.ENVIRONMENT, next_check="TOR003"),
)  # fmt: skip
