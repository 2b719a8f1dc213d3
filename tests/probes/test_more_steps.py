"""Memory over more steps, and the CTC loss under a dispatch mode, in one process with torch."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import preloaded
import pytest
from probe_code import REGISTERED

pytestmark = pytest.mark.slow

MIB = 2**20
CODE = f"""
import json, os, sys
sys.argv = ["probe", str(os.dup(1))]
{REGISTERED}
import torch
from torch.utils._python_dispatch import TorchDispatchMode
more, lengths = probe("stages.more_steps"), probe("values.first_nonfinite")
before = [each * 65 * {MIB} for each in range(more.WATCHED)]

def after(rise, raises_at=None, seconds=100.0):
    # what the memory rises by in each step, by the number of the step
    held, steps = [before[-1]], []

    def step():
        steps.append(0)
        if len(steps) == raises_at:
            raise torch.OutOfMemoryError("CUDA out of memory")
        held[0] += rise(len(steps))

    return more.after(more.STREAMS, step, lambda: held[0], seconds) or before

class Names(TorchDispatchMode):
    names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {{}}))

scores = torch.randn(3, 4, 5).log_softmax(-1)
labels, sizes = torch.randint(1, 5, (4, 6)), (torch.full((4,), 3), torch.full((4,), 6))
functions = torch.nn.functional
with Names(), lengths.ListedLengths():
    losses = [float(torch.nn.CTCLoss()(scores, labels, *sizes)),
              float(functions.ctc_loss(scores, labels, input_lengths=sizes[0],
                                       target_lengths=sizes[1]))]
print(json.dumps({{
    "watched": more.WATCHED,
    "may": [more.may_be_workspaces(before), more.may_be_workspaces(before[:3]),
            more.may_be_workspaces([each * 1024 * {MIB} for each in range(more.WATCHED)])],
    "streams": after(lambda number: 65 * {MIB} if number <= 29 else 0),
    "leak": after(lambda number: 65 * {MIB}),
    "full": after(lambda number: 65 * {MIB}, raises_at=5) == before,
    "late": after(lambda number: 0, seconds=-1.0) == before,
    "losses": losses == [float("inf")] * 2,
    "overloads": sorted({{name for name in Names.names if "ctc" in name}}),
}}))
"""


@pytest.fixture(scope="module")
def observed() -> dict[str, Any]:
    done = subprocess.run(
        [preloaded.python(), "-c", CODE], capture_output=True, text=True, check=True
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(result, dict)
    return result


def test_only_small_growth_in_each_step_may_be_that_of_workspaces(
    observed: dict[str, Any],
) -> None:
    assert observed["may"] == [True, False, False]


def test_workspaces_stop_growing_where_the_streams_repeat_and_a_leak_does_not(
    observed: dict[str, Any],
) -> None:
    assert len(set(observed["streams"])) == 1
    assert len(set(observed["leak"])) == len(observed["leak"]) == observed["watched"]


def test_without_more_steps_the_first_ones_count(observed: dict[str, Any]) -> None:
    assert observed["full"]
    assert observed["late"]


def test_the_ctc_loss_takes_the_path_that_it_takes_without_a_mode(
    observed: dict[str, Any],
) -> None:
    """With lengths as tensors it divides the losses of a GPU by tensors of the CPU."""
    assert observed["losses"]
    assert observed["overloads"] == ["aten._ctc_loss.default"]
