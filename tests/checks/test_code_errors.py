"""Errors of the user's own code: each has its fix, and no bisection."""

from __future__ import annotations

import pytest

from doctor._util.records import Ended
from doctor.checks.training.code_errors import CODE_FIXES, find_fix
from doctor.facts.error_texts import ALL_TEXTS, CODE, code_error, is_codes_own

MESSAGES = {
    "RuntimeError: Trying to backward through the graph a second time": "before backward() is",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (6x16 and 17x5)": "in_features",
    "RuntimeError: Given groups=1, weight of size [4, 3, 3, 3], expected input[4, 16, 16, 3] to "
    "have 3 channels, but got 16 channels instead": "permute",
    "ValueError: Expected input batch_size (32) to match target batch_size (4).": "flatten",
    "AssertionError: Torch not compiled with CUDA enabled": "torch.cuda.is_available()",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate "
    "memory: you tried to allocate 40000000000 bytes": "MEM002",
    "TypeError: Net.forward() takes 2 positional arguments but 3 were given": "module(*batch)",
    "TypeError: forward() got an unexpected keyword argument 'labels'": "module(**batch)",
    "ImportError: attempted relative import with no known parent package": "__init__.py",
    "ValueError: Error initializing torch.distributed using env:// rendezvous: environment "
    "variable RANK expected, but not set": "WORLD_SIZE=1",
}


def raised(message: str) -> Ended:
    return Ended(how="error", detail=f"forward: {message}")


@pytest.mark.parametrize("message", MESSAGES)
def test_a_real_message_gets_its_fix(message: str) -> None:
    pattern = find_fix(raised(message).detail)
    assert pattern
    assert MESSAGES[message] in pattern.fix
    assert is_codes_own(raised(message))


def test_every_cause_has_texts_and_a_fix() -> None:
    assert set(CODE) == set(CODE_FIXES)
    assert len(CODE) >= 20
    for cause, texts in CODE.items():
        for text in (" ".join(texts),) if cause in ALL_TEXTS else texts:
            assert code_error(text) is not None


@pytest.mark.parametrize(
    ("message", "own"),
    [
        ("KeyError: 'input'", True),
        ("ValueError: batch_norm eps must be positive", True),
        (
            "ValueError: Expected parameter logits to satisfy Real(), but found invalid values",
            False,
        ),
        ("AssertionError: the loss is nan", False),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", False),
        ("NotImplementedError: \"x_cuda\" not implemented for 'Half'", False),
    ],
)
def test_what_numbers_or_kernels_may_cause_is_bisected(message: str, own: bool) -> None:
    assert is_codes_own(raised(message)) is own
    assert not is_codes_own(Ended(how="ok"))
    assert not is_codes_own(Ended(how="signal", detail="SIGSEGV inside forward"))
