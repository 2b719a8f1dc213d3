"""Which PyTorch wheels exist, what GPU code they carry and which Python they run on.

A wheel of which no source was found is left out: the choice is then an older wheel that is known,
never a guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from doctor._util.units import dotted
from doctor.checks.torch_build.gpu_code import runs_as_cubin
from doctor.hardware.product import Capability

Version = tuple[int, int]
"""Major and minor, of torch, CUDA or Python."""

SOURCES = {
    "nvidia-gpus": "https://developer.nvidia.com/cuda-gpus",
    "nvidia-legacy-gpus": "https://developer.nvidia.com/cuda-legacy-gpus",
    "cuda-release-notes": "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html",
    "cuda-minor-compatibility": "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
    "wheel": "measured on the wheels of torch themselves",
    "wheel-printed": "torch.cuda.get_arch_list() or the build flags, printed by users of the wheel",
    "release-table": "PYTORCH_RELEASES_CODE_CC in torch/cuda/__init__.py of that release",
    "release-md": "https://github.com/pytorch/pytorch/blob/main/RELEASE.md",
    "release-2.9": "https://github.com/pytorch/pytorch/pull/164471",
    "release-2.11": "https://github.com/pytorch/pytorch/issues/172663",
    "arch-list-2.11": "https://github.com/pytorch/pytorch/issues/182250",
    "build-2.7": "https://github.com/mlverse/torch/pull/1348",
    "build-2.8": "https://github.com/huggingface/kernel-builder/pull/304",
    "build-2.10": "https://github.com/pytorch/pytorch/blob/release/2.10/.ci/manywheel/build_cuda.sh",
    "no-cuda-12": "https://github.com/pytorch/pytorch/issues/190385",
}
"""Source of a row -> its address, or what was measured."""
READ = "2026-11-22"
"""The day on which the rows were last compared with their sources."""

DEFAULT: dict[Version, Version] = {
    (2, 6): (12, 4), (2, 7): (12, 6), (2, 8): (12, 8), (2, 9): (12, 8), (2, 10): (12, 8),
    (2, 11): (13, 0), (2, 12): (13, 0), (2, 13): (13, 0), (2, 14): (13, 0), (2, 15): (13, 2),
}  # fmt: skip
"""torch -> CUDA of the x86_64 wheel that a plain `pip install torch` brings: source wheel."""

PYTHONS: dict[Version, tuple[Version, Version]] = {
    (2, 1): ((3, 8), (3, 11)), (2, 3): ((3, 8), (3, 11)), (2, 4): ((3, 8), (3, 12)),
    (2, 5): ((3, 9), (3, 12)), (2, 6): ((3, 9), (3, 13)), (2, 7): ((3, 9), (3, 13)),
    (2, 8): ((3, 9), (3, 13)), (2, 9): ((3, 10), (3, 14)), (2, 10): ((3, 10), (3, 14)),
    (2, 11): ((3, 10), (3, 14)), (2, 12): ((3, 10), (3, 14)), (2, 13): ((3, 10), (3, 14)),
    (2, 14): ((3, 10), (3, 14)), (2, 15): ((3, 11), (3, 14)),
}  # fmt: skip
"""torch -> first and last Python with wheels that are not experimental: source release-md, and
for 2.15 the wheels in the index of 2026-11-22."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """One build of torch: a release, for a CUDA version and a platform."""

    torch: Version
    cuda: Version
    platform: str
    codes: tuple[str, ...]
    """Its GPU code, spelled as torch's arch list does: "sm_90", "compute_120"."""
    cudnn: str | None
    """The cuDNN it pins; None: not known."""
    sources: tuple[str, ...]

    @property
    def index(self) -> str:
        return f"cu{self.cuda[0]}{self.cuda[1]}"

    @property
    def index_url(self) -> str:
        return f"https://download.pytorch.org/whl/{self.index}"

    @property
    def requirement(self) -> str:
        """ "torch==2.14.*"."""
        return f"torch=={dotted(self.torch)}.*"

    def has_code_for(self, capability: Capability) -> bool:
        """Whether a cubin in it runs there. PTX does not count: it wants a driver as new."""
        return any(runs_as_cubin(code, capability) for code in self.codes)


_TO_HOPPER = "50 60 70 75 80 86 90"
_VOLTA_UP = "70 75 80 86 90 100 120"
_BLACKWELL = "75 80 86 90 100 120 120+"
_ARM = "80 90"
_ARM_BLACKWELL = "80 90 100 110 120 120+"

_ROWS: tuple[tuple[str, str, str, str, str, str], ...] = (
    # torch, CUDA, code in the x86_64 wheel ("120+": PTX for it), code in the aarch64 wheel ("":
    # not known), cuDNN ("": not known), sources
    ("2.1", "12.1", _TO_HOPPER, "", "8.9.2.26", "wheel"),
    ("2.3", "12.1", _TO_HOPPER, "", "8.9.2.26", "wheel-printed release-md"),
    ("2.4", "12.1", _TO_HOPPER, "", "9.1.0.70", "wheel"),
    ("2.5", "12.4", _TO_HOPPER, "", "9.1.0.70", "wheel"),
    ("2.6", "11.8", f"37 {_TO_HOPPER}", "", "9.1.0.70", "wheel-printed release-md"),
    ("2.6", "12.4", _TO_HOPPER, "", "9.1.0.70", "wheel"),
    ("2.6", "12.6", _TO_HOPPER, "", "9.5.1.17", "wheel-printed release-md"),
    ("2.7", "11.8", f"37 {_TO_HOPPER}", "", "9.1.0.70", "build-2.7 release-md"),
    ("2.7", "12.6", _TO_HOPPER, "", "9.5.1.17", "wheel"),
    ("2.7", "12.8", _BLACKWELL, "", "9.7.1.26", "build-2.7 wheel-printed release-md"),
    ("2.8", "12.6", _TO_HOPPER, "", "9.10.2.21", "build-2.8 release-md"),
    ("2.8", "12.8", _VOLTA_UP, "", "9.10.2.21", "wheel build-2.8"),
    ("2.8", "12.9", f"70 {_BLACKWELL}", "", "9.10.2.21", "build-2.8 release-md"),
    ("2.9", "12.6", _TO_HOPPER, "", "9.10.2.21", "release-2.9 release-md"),
    ("2.9", "12.8", _VOLTA_UP, "", "9.10.2.21", "wheel release-2.9"),
    ("2.9", "13.0", _BLACKWELL, "", "9.13.0.50", "release-2.9 release-md"),
    ("2.10", "12.6", _TO_HOPPER, _ARM, "9.10.2.21", "build-2.10 release-md"),
    ("2.10", "12.8", _VOLTA_UP, "80 90 100 120", "9.10.2.21", "wheel build-2.10 release-md"),
    ("2.10", "13.0", _BLACKWELL, _ARM_BLACKWELL, "9.15.1.9", "build-2.10 release-md"),
    ("2.11", "12.6", _TO_HOPPER, _ARM, "9.10.2.21", "arch-list-2.11 release-2.11"),
    ("2.11", "12.8", "75 80 86 90 100 120", "80 90 100 120", "", "arch-list-2.11 release-2.11"),
    ("2.11", "13.0", _BLACKWELL, _ARM_BLACKWELL, "9.19.0.56", "wheel release-2.11"),
    ("2.12", "12.6", _TO_HOPPER, _ARM, "9.10.2.21", "release-table release-md"),
    ("2.12", "13.0", _BLACKWELL, _ARM_BLACKWELL, "9.20.0.48", "wheel release-md"),
    ("2.12", "13.2", _BLACKWELL, _ARM_BLACKWELL, "9.20.0.48", "release-md"),
    ("2.13", "12.6", _TO_HOPPER, _ARM, "9.10.2.21", "release-table release-md"),
    ("2.13", "13.0", _BLACKWELL, _ARM_BLACKWELL, "9.20.0.48", "wheel release-table release-md"),
    ("2.13", "13.2", _BLACKWELL, _ARM_BLACKWELL, "9.20.0.48", "release-table release-md"),
    ("2.14", "12.6", _TO_HOPPER, _ARM, "9.10.2.21", "release-table release-md"),
    ("2.14", "13.0", _BLACKWELL, _ARM_BLACKWELL, "9.24.0.43", "wheel release-table release-md"),
    ("2.14", "13.2", _BLACKWELL, _ARM_BLACKWELL, "9.24.0.43", "release-table release-md"),
    ("2.15", "13.0", _BLACKWELL, _ARM_BLACKWELL, "", "release-table no-cuda-12"),
    ("2.15", "13.2", _BLACKWELL, _ARM_BLACKWELL, "9.26.0.51", "wheel release-table no-cuda-12"),
)


def _version(text: str) -> Version:
    major, minor = text.split(".")
    return int(major), int(minor)


def _wheels() -> Iterator[Wheel]:
    for torch, cuda, x86_64, aarch64, cudnn, named in _ROWS:
        sources = tuple(named.split())
        for platform, entries in (("x86_64", x86_64), ("aarch64", aarch64)):
            codes = (f"compute_{e[:-1]}" if e.endswith("+") else f"sm_{e}" for e in entries.split())
            # What was measured is the x86_64 wheel.
            pinned = cudnn if platform == "x86_64" or "release-md" in sources else ""
            if entries:
                yield Wheel(
                    _version(torch), _version(cuda), platform, tuple(codes), pinned or None, sources
                )


WHEELS: tuple[Wheel, ...] = tuple(_wheels())
"""Linux wheels of PyTorch. Left out, because no source says which code they carry or that they
were published: 2.2, aarch64 before 2.10, the older cu118, cu121 and cu124 that are not above, cu129
but that of 2.8, cu134."""
