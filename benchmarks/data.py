"""Seconds and memory of `doctor data` beyond the loader's own.

    python benchmarks/data.py [--megabytes 200]

Needs torch and transformers; with `datasets` it also compares the reading of a file.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))


def timed(name: str, work: Callable[[], Any]) -> Any:
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    result = work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    more = (after.ru_maxrss - before.ru_maxrss) / 1024
    seconds = time.perf_counter() - began
    print(f"{name:58} {seconds:6.2f} s, {cpu:6.2f} s of CPU, peak +{more:,.0f} MB", flush=True)
    return result


def tokens() -> None:
    """256 samples of 2,048 tokens with padding and prompts."""
    import torch

    from doctor.probes.training_side.data import split_look, targets, vocabulary

    rows = torch.randint(3, 128_000, (256, 2048))
    labels = rows.clone()
    labels[:, :700] = -100
    mask = torch.ones_like(rows)
    mask[::2, 1500:], labels[::2, 1500:] = 0, -100
    batches = [{"input_ids": rows[i : i + 8], "labels": labels[i : i + 8],
                "attention_mask": mask[i : i + 8]} for i in range(0, 256, 8)]  # fmt: skip
    known = vocabulary.Vocabulary(None, "", 1, 2, 0, (2,), "here")

    def work() -> None:
        made = split_look.SplitLook(targets.Source("train", "loader", batches), known, None, "")
        for batch in made.reading.batches_of(256, 60.0):
            made.add(batch)
        made.record()

    timed("256 samples of 2,048 tokens: checks of a split", work)


def shift() -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from doctor.probes.training_side.data import documents, offsets

    config = LlamaConfig(vocab_size=128_256, hidden_size=1024, intermediate_size=2048,
                         num_hidden_layers=2, num_attention_heads=8)  # fmt: skip
    model = LlamaForCausalLM(config)
    ids = torch.randint(3, 128_000, (4, 128))
    batch = {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}
    real = documents.tokens_of(batch)
    assert real is not None
    loss = lambda module, each: module(**each).loss  # noqa: E731
    found = timed("the shift of the loss, vocabulary of 128,256, width 1,024",
                  lambda: offsets.record(model, loss, batch, real))  # fmt: skip
    assert found["shifts"] == {"1": 16}, found


def texts() -> None:
    from doctor.probes.training_side.data import row_overlap, rows, targets

    draw = random.Random(1)
    words = [f"word{n}" for n in range(5000)]
    made = [{"text": " ".join(draw.choices(words, k=12)), "label": n % 5} for n in range(100_000)]
    train, other = (targets.Source(name, "dataset", made[part], 50_000) for name, part in (
        ("train", slice(0, 50_000)), ("eval", slice(50_000, None))))  # fmt: skip

    def work() -> None:
        content = rows.read(train, 60.0)
        rows.repeats(content), row_overlap.overlap(content, other, 60.0)

    timed("100,000 short texts in two splits: equal rows", work)


def file(megabytes: int) -> None:
    from doctor.probes.training_side.data import files, rows, targets

    draw = random.Random(1)
    words = [f"word{n}" for n in range(5000)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.jsonl")
        with path.open("w") as out:
            while out.tell() < megabytes << 20:
                out.writelines(
                    json.dumps({"text": " ".join(draw.choices(words, k=150)), "id": n}) + "\n"
                    for n in range(1000)
                )
        source = targets.Source("train", "file", files.Rows([str(path)]))
        timed(f"{megabytes} MB of JSON Lines: equal rows", lambda: rows.read(source, 600.0))
        try:
            import datasets
        except ImportError:
            return
        datasets.disable_progress_bars()

        def work() -> None:
            made = datasets.load_dataset("json", data_files=str(path), cache_dir=folder)["train"]
            for _ in made.iter(batch_size=1000):
                pass

        timed(f"{megabytes} MB of JSON Lines: load and iterate with datasets", work)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=200)
    arguments = parser.parse_args()
    tokens(), texts(), shift(), file(arguments.megabytes)


if __name__ == "__main__":
    main()
