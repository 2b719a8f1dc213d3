"""Error messages whose cause is known, each with its own remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from doctor.judge.check import Owner


@dataclass(frozen=True, slots=True)
class ErrorPattern:
    """An error message that contains any of `texts` has this remedy."""

    texts: tuple[str, ...]
    fix: str
    owner: Owner = Owner.ENVIRONMENT
    sources: tuple[str, ...] = ()


def match_error(message: str, patterns: Iterable[ErrorPattern]) -> ErrorPattern | None:
    """The first pattern one of whose texts the message contains; case does not matter."""
    lower = message.casefold()
    matching = (p for p in patterns if any(text.casefold() in lower for text in p.texts))
    return next(matching, None)


MIXED_CUDNN = ErrorPattern(
    (
        "cuDNN version incompatibility",
        "SUBLIBRARY_VERSION_MISMATCH",
        "Could not load library libcudnn",
    ),
    "Make torch load only its own cuDNN: remove directories with another libcudnn from "
    "LD_LIBRARY_PATH and LD_PRELOAD. With torch 2.12 and 2.13, whose cuDNN 9.20 wheel lacks "
    "libcudnn_engines_tensor_ir, a system cuDNN that ldconfig lists has the same effect: upgrade "
    "torch, or remove the system's cuDNN.",
    sources=("pytorch-188892",),
)

NO_GPU_CODE = ("no kernel image is available", "invalid device function")
"""Messages of CUDA and HIP for a build that has no code for the device."""

GPU_TAKEN = ErrorPattern(
    ("out of memory", "busy or unavailable", "CUDA-capable devices are busy"),
    "Free the GPU: another process holds its memory, or holds the GPU in exclusive compute mode.",
)

BROKEN_GPU = ErrorPattern(
    ("uncorrectable ECC", "GPU is lost", "fallen off the bus", "came back as"),
    "Known-good code failed on this GPU. Try it on another GPU with the same environment; if it "
    "works there, return this machine and report the GPU's UUID.",
    Owner.MACHINE,
)
"""The last text is the doctor's own message for a wrong sum."""
