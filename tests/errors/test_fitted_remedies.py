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
        ("KeyError: 'llama_index'", "", "newer than the installed transformers"),
        ("KeyError: 'qwen3_moe'", "newer than the installed transformers", ""),
    ],
)
def test_only_what_the_message_shows_is_said(text: str, said: str, unsaid: str) -> None:
    first = with_message(text)[0]
    fix = fitted(first, text).fix
    assert said in fix
    assert not unsaid or unsaid not in fix
