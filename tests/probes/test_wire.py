"""The line that a probe reports for an exception."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from probe_code import REGISTERED

pytestmark = pytest.mark.slow  # starts processes

DYNAMO = """Failed running call_function <function scaled_dot_product_attention at 0x7f>(*(Fake(
..., size=(2, 4, 64, 16), dtype=torch.bfloat16,
           grad_fn=<TransposeBackward0>), Fake(..., size=(2, 4, 64, 16))), **{}):
Expected attn_mask dtype to be bool or to match query dtype, but got attn_mask.dtype: float

from user code:
   File "train.py", line 12, in forward
"""


@pytest.mark.parametrize(
    ("message", "described"),
    [
        ("", "ValueError: "),
        ("one line\nanother", "ValueError: one line"),
        ("two:\n  parts\nmore", "ValueError: two: parts"),
        ("no end:", "ValueError: no end:"),
        ("x,\n" * 100, "ValueError: " + " ".join(["x,"] * 12)),
        ("y" * 5000, "ValueError: " + "y" * 5000),
    ],
)
def test_a_message_is_its_first_complete_line(message: str, described: str) -> None:
    assert describe(message) == described


def test_the_reason_after_a_call_of_several_lines_is_reported() -> None:
    text = describe(DYNAMO.replace("at 0x7f", "at " + "x" * 900))
    assert text.startswith("ValueError: Failed running call_function")
    assert text.endswith("but got attn_mask.dtype: float")
    assert len(text) < 700


def describe(message: str) -> str:
    code = "import json; print(json.dumps(wire.describe(ValueError(sys.stdin.read()))))"
    done = subprocess.run(
        [sys.executable, "-c", REGISTERED + code, "2"],
        input=message,
        capture_output=True,
        text=True,
        check=True,
    )
    return str(json.loads(done.stdout))
