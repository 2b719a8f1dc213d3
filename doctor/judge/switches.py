"""Switches of torch and NCCL that remedies and prescriptions set, and the code that sets them."""

from __future__ import annotations

from enum import StrEnum

from packaging.version import Version

from doctor._util.versions import read_version


class Switch(StrEnum):
    """Something that a remedy turns off."""

    CUDNN_SDP = "cudnn_sdp"
    FLASH_SDP = "flash_sdp"
    MEM_EFFICIENT_SDP = "mem_efficient_sdp"
    NCCL_P2P = "nccl_p2p"


CALLS = {
    Switch.CUDNN_SDP: "torch.backends.cuda.enable_cudnn_sdp(False)",
    Switch.FLASH_SDP: "torch.backends.cuda.enable_flash_sdp(False)",
    Switch.MEM_EFFICIENT_SDP: "torch.backends.cuda.enable_mem_efficient_sdp(False)",
}
"""The statement that turns a switch off; cuDNN's exists from torch 2.4 on."""
VARIABLES = {
    Switch.CUDNN_SDP: "TORCH_CUDNN_SDPA_DEPRIORITIZED=1",
    Switch.NCCL_P2P: "NCCL_P2P_LEVEL=LOC",
}
"""The environment variable that does it."""
CUDNN_VARIABLE_SINCE = (2, 10)
"""The first torch that reads TORCH_CUDNN_SDPA_DEPRIORITIZED."""
CPU_FP16 = "2.3"
"""The first torch with fp16 matmuls and autocast on the CPU (torch/amp of releases 2.1 to 2.8)."""
MATMUL_PRECISION = 'torch.set_float32_matmul_precision("high")'
NO_TF32 = 'torch.set_float32_matmul_precision("highest")'
"""Turn matmul TF32 on or off in every torch. After the newer fp32_precision = "tf32" the legacy
getters raise, and Inductor before torch 2.15 and Lightning call them (pytorch-166387,
lightning-tf32)."""


def is_before(version: str, limit: str) -> bool:
    """Whether the release is older than `limit`; a version that cannot be parsed counts as older.

    Raises InvalidVersion where `limit` itself is none.
    """
    bound = Version(limit).release
    parsed = read_version(version)
    return parsed is None or parsed.release < bound
