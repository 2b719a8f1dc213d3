"""Mutants of real pickles: whatever CPython's unpickler imports before it stops, the doctor lists.

    nice python benchmarks/pickle_mutants.py [COUNT] [KIND ...] [FILE ...]

COUNT mutants (10,000) of each kind of tests/checkpoint/test_against_unpickler.py, of what a Trainer
of transformers saves (or of the KINDs that are named), and of each FILE, such as a checkpoint of
Lightning. Prints the imports that the doctor does not list, with the mutant; ends with 1 if there
are any.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "checkpoint")]

from test_against_unpickler import KINDS, compare, real  # noqa: E402

TRAINER = ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin")


def trainer_files(directory: Path) -> dict[str, bytes]:
    """What a Trainer saves beside the weights after one step."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=11, intermediate_size=8, max_position_embeddings=8, **sizes)
    rows = [{"input_ids": torch.tensor([1, 2]), "labels": torch.tensor(0)}] * 2
    arguments = TrainingArguments(
        output_dir=str(directory), use_cpu=True, report_to=[], max_steps=1, save_steps=1
    )
    Trainer(BertForSequenceClassification(config), arguments, train_dataset=rows).train()
    saved = directory / "checkpoint-1"
    return {name: (saved / name).read_bytes() for name in TRAINER}


def main(arguments: list[str]) -> int:
    count = int(arguments[0]) if arguments and arguments[0].isdigit() else 10_000
    kinds = [each for each in arguments if each in (*KINDS, *TRAINER)]
    files = [Path(each) for each in arguments if not each.isdigit() and each not in kinds]
    missed = 0
    with tempfile.TemporaryDirectory() as name:
        items = {kind: real(Path(name), kind) for kind in KINDS}
        items |= trainer_files(Path(name) / "trainer")
        items = {kind: data for kind, data in items.items() if kind in kinds or not kinds}
        items |= {file.name: file.read_bytes() for file in files}
        for kind, data in items.items():
            started = time.monotonic()
            misses = compare(data, count, f"{kind} by hand")
            missed += len(misses)
            seconds = time.monotonic() - started
            print(f"{kind}: {len(misses)} of {count:,} missed, {seconds:.0f} s", flush=True)
            for mutant, names in misses[:5]:
                print(f"  {names} in {mutant.hex()[:4000]}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
