"""One training in pure bf16, examined in three ways: watched, by its checkpoint, by its factory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import preloaded
import pytest
from command import doctor

TRAINING = """
import json
import os
import pathlib

import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(64, 32)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"input_layernorm": RMSNorm(32), "mlp": nn.Linear(32, 32)})
            for _ in range(2)
        )
        self.norm, self.lm_head = RMSNorm(32), nn.Linear(32, 64, bias=False)

    def forward(self, x):
        x = self.embed_tokens(x)
        for layer in self.layers:
            x = x + layer["mlp"](layer["input_layernorm"](x)).relu()
        return self.lm_head(self.norm(x))


def loss_of(model, batch):
    logits = model(batch["x"]).float()
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch["y"].flatten())


def make():
    torch.manual_seed(0)
    model = Model().to(torch.DTYPE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    x = torch.randint(0, 64, (4, 12))
    return {"model": model, "batch": {"x": x, "y": (x * 7 + 3) % 64}, "loss": loss_of,
            "optimizer": optimizer}


if __name__ == "__main__":
    torch.set_num_threads(1)
    run = make()
    for _ in range(20):
        loss_of(run["model"], run["batch"]).backward()
        run["optimizer"].step()
        run["optimizer"].zero_grad()
    os.makedirs("out")
    torch.save(run["model"].state_dict(), "out/pytorch_model.bin")
    torch.save(run["optimizer"].state_dict(), "out/optimizer.pt")
    state = {"global_step": 20, "max_steps": 20}
    pathlib.Path("out/trainer_state.json").write_text(json.dumps(state))
"""
WAYS = {
    "GRD005": ("guard", "--output", "json=guard.json", "--", sys.executable, "train.py"),
    "CKP004": ("scan", "--format", "json", "out"),
    "SMK008": ("run", "--format", "json", "--only", "SMK008", "--device", "cpu", "--model",
               "train.py:make"),
}  # fmt: skip
"""Code -> the command that judges it; `scan` reads what `guard` has trained."""


def verdict(code: str, folder: Path) -> tuple[str, str]:
    """Status and summary."""
    command, *words = WAYS[code]
    words += ["--python", preloaded.python()] if command == "run" else []
    ended = doctor(command, *words, cwd=folder)
    assert ended.returncode in (0, 1), ended.stderr
    report = ended.stdout or (folder / "guard.json").read_text()
    findings = json.loads(report)["findings"]
    ((status, summary),) = [(f["status"], f["summary"]) for f in findings if f["code"] == code]
    return status, summary


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "status"), [("bfloat16", "fail"), ("float32", "pass")])
def test_guard_scan_and_run_agree_on_norms_at_1(dtype: str, status: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING.replace("DTYPE", dtype))
    verdicts = {code: verdict(code, tmp_path) for code in WAYS}
    assert {code: each for code, (each, _) in verdicts.items()} == dict.fromkeys(WAYS, status)
    for _, summary in verdicts.values():
        assert ("rounding" in summary) == (status == "fail")
