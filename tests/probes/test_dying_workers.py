"""A worker of the user's loader that dies is an error of the next batch and of nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import multiprocessing, os, sys, time
import torch
from doctor.probes.training_side.subject import loaders

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, number):
        if number >= 16:
            while not os.path.exists(sys.argv[2]):
                time.sleep(0.01)
            os._exit(3)
        return torch.zeros(2)

loader = torch.utils.data.DataLoader(Rows(), batch_size=8, num_workers=2)
items = iter(loader) if sys.argv[1] == "plain" else loaders.iterator(loader)
next(items)
open(sys.argv[2], "w").close()
try:
    while len(multiprocessing.active_children()) == 2:  # the batches ahead end a worker
        time.sleep(0.01)
    time.sleep(0.01)
    print("between: nothing")
except RuntimeError:
    print("between: RuntimeError")
try:
    list(items)
except RuntimeError as error:
    print("in next:", "exited unexpectedly" in str(error))
"""


def ended(how: str, flag: Path) -> str:
    command = [sys.executable, "-c", CODE, how, str(flag)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout


def test_a_death_between_batches_is_an_error_of_the_next_one(tmp_path: Path) -> None:
    assert ended("iterator", tmp_path / "flag") == "between: nothing\nin next: True\n"


def test_torch_itself_raises_it_anywhere(tmp_path: Path) -> None:
    """What the other test is for: where this fails, torch's handler has become harmless."""
    assert "between: RuntimeError" in ended("plain", tmp_path / "flag")
