"""Checkpoints with labels: what `doctor scan --deep` must say of each, and what not.

python benchmarks/checkpoint_corpus.py [--only WORD]

A planted case must fail or warn in a check of its label and say its word; a healthy one may neither
fail nor warn. The labels were written before the first run; the words of two were widened after it
("norms are not finite", "hidden size"). All files are small.
"""

from __future__ import annotations

import argparse
import json
import pickle
import shutil
import struct
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch  # noqa: TID253
from safetensors.torch import load_file, save_file  # noqa: TID253

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
warnings.filterwarnings("ignore")

import healthy_folders as made  # noqa: E402

from doctor._util.records import Unknown  # noqa: E402
from doctor.checkpoint.contents import ScanRequest, read  # noqa: E402
from doctor.checkpoint.io.stages import no_stage  # noqa: E402
from doctor.checks.checkpoint import CHECKS  # noqa: E402
from doctor.judge.check import Status  # noqa: E402

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


class Case(NamedTuple):
    """`build` writes below a directory. `codes` () means healthy."""

    build: Callable[[Path], Any]
    codes: tuple[str, ...] = ()
    word: str = ""


def edit(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def change(root: Path, **values: Callable[[torch.Tensor], torch.Tensor]) -> Path:
    """A small Llama whose tensors of these endings are changed ("__" for ".")."""
    made.saved_transformer(root, "llama")
    state = load_file(root / WEIGHTS)
    for ending, function in values.items():
        for name in [n for n in state if n.endswith(ending.replace("__", "."))][:1]:
            state[name] = function(state[name].clone()).contiguous()
    save_file(state, root / WEIGHTS, metadata={"format": "pt"})
    return root


def trainer(root: Path) -> dict[str, Any]:
    made.trainer(root)
    return dict(torch.load(root / "optimizer.pt", weights_only=True))


def second_moments_of_another_world(root: Path) -> None:
    optimizer = trainer(root)
    optimizer["state"][0]["exp_avg_sq"].fill_(1e30)
    torch.save(optimizer, root / "optimizer.pt")


def second_moments_below_zero(root: Path) -> None:
    optimizer = trainer(root)
    optimizer["state"][0]["exp_avg_sq"][0, 0] = -1e-4
    torch.save(optimizer, root / "optimizer.pt")


def scaler_that_collapsed(root: Path) -> None:
    trainer(root)
    state = {"scale": 5e-20, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000,
             "_growth_tracker": 0}  # fmt: skip
    torch.save(state, root / "scaler.pt")


def log_with_nan(root: Path) -> None:
    trainer(root)
    state = json.loads((root / "trainer_state.json").read_text())
    for row in state["log_history"][-4:]:
        row.update(loss=0.0, grad_norm=float("nan"))
    (root / "trainer_state.json").write_text(json.dumps(state))


def index_names_another_shard(root: Path) -> None:
    made.sharded(root)
    index = json.loads((root / INDEX).read_text())
    files = sorted(set(index["weight_map"].values()))
    name = next(iter(index["weight_map"]))
    other = next(file for file in files if file != index["weight_map"][name])
    index["weight_map"][name] = other
    (root / INDEX).write_text(json.dumps(index))


def index_lacks_a_tensor(root: Path) -> None:
    made.sharded(root)
    index = json.loads((root / INDEX).read_text())
    del index["weight_map"]["model.norm.weight"]
    (root / INDEX).write_text(json.dumps(index))


def index_of_another_total(root: Path) -> None:
    made.sharded(root)
    index = json.loads((root / INDEX).read_text())
    index["metadata"]["total_size"] = 17
    (root / INDEX).write_text(json.dumps(index))


def shard_of_no_bytes(root: Path) -> None:
    made.sharded(root)
    sorted(root.glob("model-*.safetensors"))[1].write_bytes(b"")


def compressed_by_an_old_joblib(root: Path) -> None:
    data = pickle.dumps({"coef": [1.0, 2.0]}, 2)
    (root / "model.pkl").write_bytes(
        b"ZF" + hex(len(data)).encode().ljust(19) + zlib.compress(data)
    )


def prefix_of_a_wrapper(root: Path) -> None:
    made.saved_transformer(root, "llama")
    state = {f"module.{name}": value for name, value in load_file(root / WEIGHTS).items()}
    save_file(state, root / WEIGHTS, metadata={"format": "pt"})


def prefix_of_compile(root: Path) -> None:
    made.saved_transformer(root, "llama")
    state = {f"_orig_mod.{name}": value for name, value in load_file(root / WEIGHTS).items()}
    save_file(state, root / WEIGHTS, metadata={"format": "pt"})


def statistics_below_zero(root: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8))
    state = model.state_dict()
    state["1.running_var"][2] = -0.5
    torch.save(state, root / "model.pt")


def layer_twice(root: Path) -> None:
    made.saved_transformer(root, "llama")
    state = load_file(root / WEIGHTS)
    for name in [n for n in state if ".layers.0." in n]:
        state[name.replace(".0.", ".1.")] = state[name].clone()
    save_file(state, root / WEIGHTS, metadata={"format": "pt"})


def truncated_in_the_middle(root: Path) -> None:
    made.saved_transformer(root, "llama")
    data = (root / WEIGHTS).read_bytes()
    (root / WEIGHTS).write_bytes(data[: len(data) * 2 // 3])


def pointer_of_git(root: Path) -> None:
    made.saved_transformer(root, "llama")
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + "\nsize 123\n"
    (root / WEIGHTS).write_text(text)


def optimizer_of_a_larger_model(root: Path) -> None:
    trainer(root)
    other = made.trained(made.transformer("llama", hidden_size=32, intermediate_size=48), 3)
    torch.save(other.state_dict(), root / "optimizer.pt")


def two_formats_that_differ(root: Path) -> None:
    made.saved_transformer(root, "llama")
    state = {name: value + 1 for name, value in load_file(root / WEIGHTS).items()}
    torch.save(state, root / "pytorch_model.bin")


def adapter_never_trained(root: Path) -> None:
    made.adapter(root, "lora")
    file = root / "adapter_model.safetensors"
    state = {n: v * 0 if "lora_B" in n else v for n, v in load_file(file).items()}
    save_file(state, file, metadata={"format": "pt"})
    steps = {"global_step": 500, "max_steps": 500, "log_history": [{"loss": 2.1, "step": 500}]}
    (root / "trainer_state.json").write_text(json.dumps(steps))


def header_beyond_the_file(root: Path) -> None:
    made.saved_transformer(root, "llama")
    (root / WEIGHTS).write_bytes(struct.pack("<Q", 1 << 40) + b'{"a"')


def payload_in_the_arguments(root: Path) -> None:
    trainer(root)

    class Runs:
        def __reduce__(self) -> Any:
            return eval, ("1+1",)

    (root / "training_args.bin").write_bytes(pickle.dumps(Runs()))


def statistics_of_constants(root: Path) -> None:
    state = torch.nn.Sequential(torch.nn.BatchNorm1d(4)).state_dict()
    state["0.weight"] += torch.randn(4) / 10
    torch.save({**state, "0.running_var": torch.zeros(4)}, root / "model.pt")


def configured(root: Path, **settings: Any) -> None:
    made.saved_transformer(root, "llama")
    edit(root / "config.json", **settings)


def zero(rows: slice) -> Callable[[torch.Tensor], torch.Tensor]:
    def function(tensor: torch.Tensor) -> torch.Tensor:
        tensor[rows] = 0
        return tensor

    return function


def value(number: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def function(tensor: torch.Tensor) -> torch.Tensor:
        tensor.view(-1)[3] = number
        return tensor

    return function


CASES: dict[str, Case] = {
    "second moments of 1e30": Case(
        second_moments_of_another_world, ("CKP005", "CKP009"), "moment|exp_avg_sq"
    ),
    "second moments below 0": Case(
        second_moments_below_zero, ("CKP005", "CKP009"), "moment|exp_avg_sq|negative"
    ),
    "scale of a GradScaler of 5e-20": Case(
        scaler_that_collapsed, ("CKP005", "CKP009", "CKP019"), "scale"
    ),
    "log with NaN norms": Case(
        log_with_nan, ("CKP005", "CKP009", "CKP004"), "nan|grad_norm|not finite"
    ),
    "index names another shard": Case(index_names_another_shard, ("CKP001",), "index"),
    "index lacks a tensor": Case(index_lacks_a_tensor, ("CKP001",), "norm.weight|index"),
    "shard of 0 bytes": Case(shard_of_no_bytes, ("CKP001",), "empty|0 bytes"),
    "prefix module.": Case(prefix_of_a_wrapper, ("CKP012", "CKP001"), "module"),
    "prefix _orig_mod.": Case(prefix_of_compile, ("CKP012", "CKP001"), "_orig_mod"),
    "running_var below 0": Case(statistics_below_zero, ("CKP005",), "running_var"),
    "cut in the middle": Case(truncated_in_the_middle, ("CKP001",), "ends|bytes|cut|truncated"),
    "git-lfs pointer": Case(pointer_of_git, ("CKP001",), "lfs|LFS"),
    "optimizer of a larger model": Case(optimizer_of_a_larger_model, ("CKP014",), "shape"),
    "LoRA B all zero": Case(adapter_never_trained, ("CKP013",), "lora_B|zero"),
    "header beyond the file": Case(header_beyond_the_file, ("CKP001",), "header"),
    "eval in training_args.bin": Case(payload_in_the_arguments, ("CKP010",), "eval"),
    "one weight of 1e30": Case(
        lambda r: change(r, q_proj__weight=value(1e30)), ("CKP005",), "q_proj"
    ),
    "one NaN": Case(lambda r: change(r, k_proj__weight=value(float("nan"))), ("CKP005",), "k_proj"),
    "embedding of 90 % zeros": Case(
        lambda r: change(r, embed_tokens__weight=zero(slice(4, None))), ("CKP005",), "embed"
    ),
    "matrix of zeros": Case(
        lambda r: change(r, up_proj__weight=zero(slice(None))), ("CKP005",), "up_proj"
    ),
    "more layers in config.json": Case(
        lambda r: configured(r, num_hidden_layers=5), ("CKP012",), "layers"
    ),
    "wider config.json": Case(lambda r: configured(r, hidden_size=64), ("CKP012",), "hidden size"),
    "layer saved twice": Case(layer_twice),
    "total of the index": Case(index_of_another_total),
    "weights in two formats": Case(two_formats_that_differ),
    "compressed by joblib": Case(compressed_by_an_old_joblib),
    "trainer": Case(trainer),
    "trainer in bf16 rate": Case(lambda r: made.trainer(r, "llama", lr_scheduler_type="cosine")),
    "gpt2": Case(lambda r: made.saved_transformer(r, "gpt2")),
    "accelerate": Case(lambda r: made.accelerated(r, True)),
    "lightning": Case(made.lightning),
    "pruned half of a matrix": Case(
        lambda r: change(r, down_proj__weight=lambda t: t * (torch.rand_like(t) > 0.5))
    ),
    "norm of 0 in a gate": Case(lambda r: change(r, o_proj__weight=lambda t: t * 1e-4)),
    "running_var of 0": Case(statistics_of_constants),
}


def verdicts_of(path: Path) -> dict[str, Any]:
    found = read(ScanRequest(path=str(path), deep=True), no_stage, lambda note: None)
    if isinstance(found, Unknown):
        return {}
    chosen = [check for check in CHECKS if check.code <= "CKP014" and check.code != "CKP007"]
    every = {check.code: check.judge(checkpoint=found) for check in chosen if _of(check)}
    return every


def _of(check: Any) -> bool:
    import inspect

    parameters = inspect.signature(check.judge).parameters.values()
    return all(each.name == "checkpoint" or each.default is not each.empty for each in parameters)


def result(case: Case, verdicts: dict[str, Any]) -> str:
    import re

    loud = {c: v for c, v in verdicts.items() if v.status in (Status.FAIL, Status.WARN)}
    if not case.codes:
        return "false alarm" if loud else "silent"
    named = [c for c in case.codes if c in loud and re.search(case.word, loud[c].summary, re.I)]
    return "right" if named else "other" if loud else "missed"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for name, case in CASES.items():
        if options.only not in name:
            continue
        root = Path(tempfile.mkdtemp())
        try:
            case.build(root)
            verdicts = verdicts_of(root)
        finally:
            shutil.rmtree(root)
        outcome = result(case, verdicts)
        counts[outcome] += 1
        if outcome not in ("right", "silent"):
            said = [
                f"{code} {verdict.status}: {verdict.summary[:200]}"
                for code, verdict in verdicts.items()
                if verdict.status not in (Status.PASS, Status.SKIP)
            ]
            print(f"{outcome}: {name}: {'; '.join(said)}", flush=True)
    print(dict(counts))
    sys.exit(bool(set(counts) - {"right", "silent"}))


if __name__ == "__main__":
    main()
