"""Time of the own-model step as ratios to plain scripts, on this machine, alone.

    python benchmarks/own_model.py [REPEATS]

factory: `--model` against a script that trains the same three steps. NaN, TypeError: the seconds
that the diagnosis of such a fault adds to a factory without one. hf: `--hf` against a script that
imports transformers and trains the same three steps. run: the whole `doctor run --hf` against that
script; three of its processes import torch, two of them transformers, at the same time. The best of
REPEATS (3) counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from doctor.collect.children import Children
from doctor.collect.own_training import collect_own
from doctor.job.job import Chosen, Job

CORPUS = Path(__file__).parents[1] / "tests" / "corpus" / "own_model"
STEPS = """
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for _ in range(3):
    with torch.autocast("cpu", torch.bfloat16):
        loss = run()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SCRIPT = f"""
import torch
from healthy_01 import logits_and_loss
model, batch = logits_and_loss()
run = lambda: model(*batch)[1]
{STEPS}
"""
HF_SCRIPT = f"""
import sys, torch
from transformers import AutoConfig, LlamaForCausalLM
model = LlamaForCausalLM(AutoConfig.from_pretrained(sys.argv[1]))
ids = torch.randint(64, (2, 64))
run = lambda: model(input_ids=ids, labels=ids).loss
{STEPS}
"""
CONFIG = """{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 32,
 "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
 "num_key_value_heads": 2, "vocab_size": 64, "max_position_embeddings": 128}"""
TARGETS = {"factory": 1.3, "NaN": 5.0, "TypeError": 1.0, "hf": 1.5, "run": 2.0}


def script(code: str, *arguments: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, cwd=CORPUS)
    return time.perf_counter() - started


def doctor(**fields: str) -> float:
    children, started = Children(), time.perf_counter()
    try:
        chosen = Chosen("bf16", "")
        collect_own(
            children, sys.executable, Job(device="cpu", **fields), "cpu", chosen, lambda stage: None
        )
        return time.perf_counter() - started
    finally:
        children.interrupt()


def run(directory: str) -> float:
    line = ("run", "--no-config", "--device", "cpu", "--hf", directory)
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-P", "-m", "doctor", *line], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - started


def main(repeats: int) -> int:
    os.chdir(CORPUS)
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "config.json").write_text(CONFIG, "utf-8")
        runs = {
            "script": lambda: script(SCRIPT),
            "healthy": lambda: doctor(model="healthy_01.py:logits_and_loss"),
            "nan": lambda: doctor(model="numerics_01.py:fully_masked_row"),
            "error": lambda: doctor(model="errors_01.py:inputs_and_labels_without_criterion"),
            "hf script": lambda: script(HF_SCRIPT, directory),
            "hf": lambda: doctor(hf=directory),
            "run": lambda: run(directory),
        }
        best = {name: min(each() for _ in range(repeats)) for name, each in runs.items()}
    results = {
        "factory": best["healthy"] / best["script"],
        "NaN": best["nan"] - best["healthy"],
        "TypeError": best["error"] - best["healthy"],
        "hf": best["hf"] / best["hf script"],
        "run": best["run"] / best["hf script"],
    }
    print({name: round(seconds, 2) for name, seconds in best.items()}, "s")
    for name, result in results.items():
        unit = "x" if name in ("factory", "hf", "run") else "s more"
        print(f"{name}: {result:.2f} {unit}; at most {TARGETS[name]:g} wanted")
    return int(any(result > TARGETS[name] for name, result in results.items()))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3))
