"""Error texts whose cause is known, each with its own remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from doctor.judge.check import Owner


@dataclass(frozen=True, slots=True)
class Known:
    """Any of `texts` in an error means this remedy."""

    texts: tuple[str, ...]
    fix: str
    owner: Owner = Owner.ENVIRONMENT
    sources: tuple[str, ...] = ()


def recognise(said: str, known: Iterable[Known]) -> Known | None:
    """The first entry one of whose texts is in what was said."""
    lower = said.casefold()
    return next((k for k in known if any(text.casefold() in lower for text in k.texts)), None)


MIXED_CUDNN = Known(
    (
        "cuDNN version incompatibility",
        "SUBLIBRARY_VERSION_MISMATCH",
        "Could not load library libcudnn",
    ),
    "Let torch load its own cuDNN alone: take the folders that hold another libcudnn out of "
    "LD_LIBRARY_PATH and LD_PRELOAD. With torch 2.12 and 2.13, whose cuDNN 9.20 wheel lacks "
    "libcudnn_engines_tensor_ir, a system cuDNN that ldconfig knows does it too: upgrade torch, "
    "or remove that one.",
    sources=("pytorch-188892",),
)

NO_GPU_CODE = ("no kernel image is available", "invalid device function")
"""What CUDA and HIP say when the build has no code for the device."""

GPU_TAKEN = Known(
    ("out of memory", "busy or unavailable", "CUDA-capable devices are busy"),
    "Free the GPU: another process holds its memory, or holds it alone (exclusive compute mode).",
)

BROKEN_GPU = Known(
    ("uncorrectable ECC", "GPU is lost", "fallen off the bus", "came back as"),
    "Known-good code failed on this GPU. Try it on another GPU with the same environment; if it "
    "works there, give this machine back and name the GPU's UUID.",
    Owner.MACHINE,
)
"""The last text is the doctor's own, of a sum that came back wrong."""
