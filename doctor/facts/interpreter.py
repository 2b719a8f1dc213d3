"""The interpreter that trains, and torch in it, without thresholds."""

from __future__ import annotations

import re

from doctor._util.records import Ended, Section
from doctor._util.text_fields import Identifier, Product

OF_REPORT = "of the report"
"""How an interpreter is chosen that only a pasted report shows."""
NO_CODE = re.compile(r"no kernel image is available|cudaErrorNoKernelImageForDevice")
"""The error of a kernel without code for the GPU, as the driver words it; torch's own warnings of
its code are about torch."""


class Interpreter(Section, frozen=True, kw_only=True):
    """The Python that trains, and how importing torch there ended."""

    path: Identifier
    chosen: str
    """Why this interpreter: --python, VIRTUAL_ENV, ..."""
    version: Product = ""
    started: bool = True
    """False: the program ended before it told its version, so that it may be no Python."""
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
