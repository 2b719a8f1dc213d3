"""Seconds and memory of `doctor data` beyond the loader's own.

    python benchmarks/data.py [--megabytes 200] [--rows 2_000_000]

Needs torch and transformers; with `datasets` it also compares the reading of a file. Each
measurement is a process of its own with one thread, so that its seconds of CPU tell most.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))


def timed(name: str, work: Callable[[], Any]) -> None:
    pid = os.fork()
    if not pid:
        measured(name, work)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        raise SystemExit(f"{name}: failed")


def measured(name: str, work: Callable[[], Any]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    more = (after.ru_maxrss - before.ru_maxrss) / 1024
    seconds = time.perf_counter() - began
    print(f"{name:58} {seconds:6.2f} s, {cpu:6.2f} s of CPU, peak +{more:,.0f} MB", flush=True)


def tokens() -> None:
    """256 samples of 2,048 tokens with padding and prompts."""
    import torch

    from doctor.probes.training_side.data import split_look, targets, vocabulary

    tokenizer = chat_tokenizer()
    known = vocabulary.of_objects(tokenizer, None, None, "")
    assert known.stops
    rows = torch.randint(8, 128_000, (256, 2048))
    rows[:, :3], rows[:, 697:700] = torch.tensor([3, 5, 6]), torch.tensor([4, 5, 7])
    labels = rows.clone()
    labels[:, :700] = -100
    mask = torch.ones_like(rows)
    mask[::2, 1500:], labels[::2, 1500:] = 0, -100
    batches = [{"input_ids": rows[i : i + 8], "labels": labels[i : i + 8],
                "attention_mask": mask[i : i + 8]} for i in range(0, 256, 8)]  # fmt: skip

    def work() -> None:
        made = split_look.SplitLook(targets.Source("train", "loader", batches), known, None, "")
        for batch in made.reading.batches_of(256, 60.0):
            made.add(batch)
        made.record()

    timed("256 samples of 2,048 tokens: checks of a split", work)


def chat_tokenizer() -> Any:
    """128,000 words, and a template."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = ("<pad>", "<s>", "</s>", "<turn>", "<end>", "<is>", "user", "model")
    words = {name: number for number, name in enumerate(names)}
    words.update({f"w{number}": number for number in range(len(words), 128_000)})
    made = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>",
        additional_special_tokens=["<turn>", "<end>", "<is>"],
    )  # fmt: skip
    tokenizer.chat_template = (
        "{% for m in messages %}<turn> <is> {{ m['role'] }} {{ m['content'] }} <end> {% endfor %}"
        "{% if add_generation_prompt %}<end> <is> model{% endif %}"
    )
    return tokenizer


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

    def work() -> None:
        found = offsets.record(model, loss, batch, real)
        assert found["shifts"] == {"1": 16}, found

    timed("the shift of the loss, vocabulary of 128,256, width 1,024", work)


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


def bounded(count: int) -> None:
    from doctor.probes.training_side.data import rows, targets

    class Endless:
        def again(self) -> Any:
            return ({"text": f"a text of its own, with the number {n}"} for n in range(count))

    source = targets.Source("train", "file", Endless())
    timed(f"{count:,} texts of a file: equal rows", lambda: rows.read(source, 600.0))


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
        if not find_spec("datasets"):
            return

        def work() -> None:
            import datasets

            datasets.disable_progress_bars()
            made = datasets.load_dataset("json", data_files=str(path), cache_dir=folder)["train"]
            for _ in made.iter(batch_size=1000):
                pass

        timed(f"{megabytes} MB of JSON Lines: load and iterate with datasets", work)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rows", type=int, default=2_000_000)
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    tokens(), texts(), bounded(arguments.rows), shift(), file(arguments.megabytes)


if __name__ == "__main__":
    main()
