"""The sentence that a message's own numbers and names put before a remedy."""

from __future__ import annotations

import pytest

from doctor.errors.fitted import fitted
from doctor.errors.match import with_message

ARGUMENT = "TypeError: {}() got an unexpected keyword argument '{}'"
PRODUCT = "RuntimeError: mat1 and mat2 shapes cannot be multiplied ({})"


@pytest.mark.parametrize(
    ("text", "said", "unsaid"),
    [
        (ARGUMENT.format("Net.__init__", "verbose"), "", "get_last_lr"),
        (ARGUMENT.format("ReduceLROnPlateau.__init__", "verbose"), "get_last_lr", ""),
        (ARGUMENT.format("MyModel.__init__", "device"), "", "GradScaler"),
        (ARGUMENT.format("Loss.__init__", "beta"), "", "DPOConfig"),
        (ARGUMENT.format("main", "resume_from_checkpoint"), "", "trainer.fit"),
        (PRODUCT.format("64x256 and 512x10"), "nn.Linear(256, 10)", "x.flatten(1) before it"),
        (PRODUCT.format("64x128 and 64x10"), "nn.Linear(128, 10)", "is transposed"),
        (PRODUCT.format("1792x28 and 784x128"), "x.flatten(1) before it", ""),
        (
            "RuntimeError: Given groups=1, weight of size [64, 64, 3, 3], expected input[16, 128, "
            "64, 64] to have 64 channels, but got 128 channels instead",
            "in_channels=128",
            "another dimension",
        ),
        ("IndexError: Target 255 is out of bounds.", "", "256 classes"),
        (
            "ImportError: libcublas.so.11: cannot open shared object file: No such file or "
            "directory",
            "nvidia-cublas-cu11",
            "cu12.",
        ),
        (
            "HTTPError: 401 Client Error: Unauthorized for url: "
            "https://huggingface.co/datasets/acme/words/resolve/main/README.md",
            "huggingface.co/datasets/acme/words",
            "",
        ),
        (
            "GatedRepoError: 403 Client Error. Cannot access gated repo for url "
            "https://huggingface.co/api/datasets/acme/words/resolve/main/x.json",
            "huggingface.co/datasets/acme/words",
            "huggingface.co/api",
        ),
        (
            "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected "
            "96 from C header, got 88 from PyObject",
            "built for numpy 2 and numpy 1 is installed",
            '"numpy<2"',
        ),
        (
            "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected "
            "88 from C header, got 96 from PyObject",
            '"numpy<2"',
            "built for numpy 2",
        ),
        (
            "RuntimeWarning: numpy.ndarray size changed, may indicate binary incompatibility. "
            "Expected 80 from C header, got 88 from PyObject",
            "--force-reinstall",
            "built for",
        ),
        (
            "ValueError: You can't train a model that has been loaded in 8-bit or 4-bit precision "
            "on a different device than the one you're training on.",
            "LOCAL_RANK",
            "",
        ),
        (
            "ValueError: You can't train a model that has been loaded in 8-bit precision on "
            "multiple devices.",
            "device_map=",
            "LOCAL_RANK",
        ),
        (
            "ImportError: TorchCodec is required for save_with_torchcodec. Please install "
            "torchcodec to use this function.",
            "torchcodec of this torch",
            "",
        ),
        ("ModuleNotFoundError: No module named 'torchcodec'", "torchcodec of this torch", ""),
        (
            "NCCL WARN Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 bytes, error: No "
            "space left on device (28)",
            "--shm-size",
            "save_total_limit",
        ),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/torch_1'", "--shm-size", "save_"),
        ("OSError: [Errno 28] No space left on device: '/data/out'", "save_total_limit", "shm"),
        (
            "RuntimeError: The NVIDIA Tesla K80 GPU with CUDA capability sm_37 is not compatible "
            "with the current PyTorch installation.",
            "torch up to 2.6 from the index cu118",
            "1.12",
        ),
        ("KeyError: 'llama_index'", "", "newer than the installed transformers"),
        ("KeyError: 'qwen3_moe'", "newer than the installed transformers", ""),
    ],
)
def test_only_what_the_message_shows_is_said(text: str, said: str, unsaid: str) -> None:
    first = with_message(text)[0]
    fix = fitted(first, text).fix
    assert said in fix
    assert not unsaid or unsaid not in fix
