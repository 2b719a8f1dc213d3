"""What lies beside the weights: files of ranks and of a run, templates, settings, averages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from judges import judge

from doctor._util.records import Unknown
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.layouts.rank_files import rank_problems
from doctor.checkpoint.layouts.tokenizer import read_tokenizer
from doctor.checkpoint.records import (
    Checkpoint,
    Contents,
    Files,
    ModelConfig,
    Tokenizer,
    Training,
)
from doctor.judge.check import Status, Verdict

torch = pytest.importorskip("torch")


def scanned(path: Path, deep: bool = False) -> Checkpoint:
    request = ScanRequest(path=str(path), deep=deep)
    found = read(request, no_stage, lambda note: None)
    assert not isinstance(found, Unknown), found.reason
    return found


def verdict(code: str, path: Path, deep: bool = False) -> Verdict:
    return judge(code)(checkpoint=scanned(path, deep))


def save_ranks(path: Path, name: str, steps: dict[int, int], **more: Any) -> None:
    for rank, step in steps.items():
        held = {"model": {"w": torch.randn(4, 4)}, "step": step, **more}
        torch.save(held, path / name.format(rank))


@pytest.mark.parametrize(
    ("name", "steps", "more", "kinds"),
    [
        ("rank{}.pt", {0: 600, 1: 600, 2: 550}, {}, ["mixed"]),
        ("model.shard-{}.pth", {0: 100, 1: 150}, {}, ["mixed"]),
        ("ckpt_rank_{}.pt", {0: 9, 1: 9, 3: 9}, {}, ["lost-rank"]),
        ("rank{}.pt", {0: 9, 1: 9}, {"world_size": 3}, ["lost-rank"]),
        ("rank{}.pt", {0: 600, 1: 600}, {"world_size": 2}, []),
        ("rank{}.pt", {1: 600, 2: 600}, {}, []),  # counted from 1
        ("ckpt_step{}.pt", {0: 0, 100: 100}, {}, []),
        ("worker{}.pt", {0: 3, 1: 5}, {}, []),  # a population, each with a run of its own
    ],
)
def test_files_of_ranks(
    name: str, steps: dict[int, int], more: Any, kinds: list[str], tmp_path: Path
) -> None:
    save_ranks(tmp_path, name, steps, **more)
    assert [each.kind for each in rank_problems(LocalDirectory(tmp_path))] == kinds
    status = {"mixed": Status.FAIL, "lost-rank": Status.FAIL}[kinds[0]] if kinds else Status.PASS
    assert verdict("CKP001", tmp_path).status is status


def save_run(path: Path, **lacking: tuple[str, ...]) -> None:
    """Three checkpoints of a trainer; `lacking` are files that one of them has not."""
    weights = {"layer.weight": torch.randn(4, 4)}
    for step in (10, 20, 30):
        place = path / f"checkpoint-{step}"
        place.mkdir()
        torch.save(weights, place / "pytorch_model.bin")
        torch.save({"state": {}, "param_groups": []}, place / "optimizer.pt")
        torch.save({"last_epoch": step}, place / "scheduler.pt")
        state = {"global_step": step, "max_steps": 40, "log_history": []}
        (place / "trainer_state.json").write_text(json.dumps(state))
        for name in lacking.get(f"c{step}", ()):
            (place / name).unlink()


@pytest.mark.parametrize(
    ("lacking", "status"),
    [
        ({}, Status.PASS),
        ({"c30": ("optimizer.pt", "trainer_state.json")}, Status.WARN),
        ({"c10": ("optimizer.pt",), "c20": ("optimizer.pt",)}, Status.PASS),  # to save space
        ({f"c{n}": ("optimizer.pt", "scheduler.pt") for n in (10, 20, 30)}, Status.PASS),
    ],
)
def test_the_latest_lacks_what_those_before_it_have(
    lacking: Any, status: Status, tmp_path: Path
) -> None:
    save_run(tmp_path, **lacking)
    found = verdict("CKP001", tmp_path)
    assert found.status is status
    assert ("checkpoint-20 is the last with all of it" in found.summary) is (status is Status.WARN)


@pytest.mark.parametrize(
    ("counted", "status"),
    [(30, Status.SKIP), (120, Status.FAIL), (20, Status.SKIP)],
)
def test_a_scheduler_that_is_ahead_needs_no_flag(
    counted: int, status: Status, tmp_path: Path
) -> None:
    save_run(tmp_path)
    place = tmp_path / "checkpoint-30"
    torch.save({"last_epoch": counted, "_step_count": counted + 1}, place / "scheduler.pt")
    found = verdict("CKP021", place)
    assert found.status is status
    assert verdict("CKP019", place).status is Status.SKIP


TEMPLATES = {
    "chatml": ("{{ '<|im_start|>' + c + '<|im_end|>' }}", (), ("<|im_end|>",)),
    "added": ("{{ '<|im_start|>' + c + '<|im_end|>' }}", ("<|im_end|>",), ()),
    "gemma": ("<start_of_turn>user\n{{ c }}<end_of_turn>", (), ("<end_of_turn>",)),
    "plain tags": ("{{ '<|user|>' + c + eos_token }}", (), ()),  # as zephyr writes them
    "both": ("{{ c + '<|im_end|>' + eos_token }}", (), ()),
    "words": ("[INST] {{ c }} [/INST]", (), ()),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_ends_turns_with_tokens(name: str, tmp_path: Path) -> None:
    template, added, absent = TEMPLATES[name]
    tokens = [{"id": 7 + n, "content": text} for n, text in enumerate(added)]
    tokenizer = {"added_tokens": tokens, "model": {"vocab": {"a": 0, "</s>": 1}}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    (tmp_path / "chat_template.jinja").write_text(template)
    found = read_tokenizer(LocalDirectory(tmp_path))
    assert found is not None
    assert found.absent_ends == absent
    (tmp_path / "chat_template.jinja").unlink()
    settings = {"chat_template": [{"name": "default", "template": template}]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    found = read_tokenizer(LocalDirectory(tmp_path))
    assert found is not None
    assert found.absent_ends == absent


@pytest.mark.parametrize(
    ("stops", "eos", "steps", "status"),
    [
        ((2,), 2, 100, Status.WARN),
        ((2,), 2, None, Status.NOTE),  # a base model
        ((2, 7), 2, 100, Status.PASS),
        ((7,), 7, 100, Status.PASS),
        ((), 2, 100, Status.PASS),
    ],
)
def test_the_end_of_a_turn_ends_a_generation(
    stops: Any, eos: int, steps: int | None, status: Status
) -> None:
    tokenizer = Tokenizer(
        files=("tokenizer.json",), eos="</s>", eos_id=eos, stops=stops, ends={"<|im_end|>": 7},
        largest=7,
    )  # fmt: skip
    held = Checkpoint(
        path="/c", layout="x", files=Files(count=1, bytes=9, largest=9),
        contents=Contents(tensors=9), model=ModelConfig(embedding_rows=8), tokenizer=tokenizer,
        training=Training(steps=steps),
    )  # fmt: skip
    assert judge("CKP012")(checkpoint=held).status is status


@pytest.mark.parametrize(
    ("rows", "settings", "status"),
    [
        (7, {"num_classes": 10}, Status.WARN),
        (10, {"num_classes": 10}, Status.SKIP),
        (11, {"num_classes": 10}, Status.SKIP),  # and the background
        (90, {"num_classes": 10}, Status.SKIP),  # nine anchors
        (1, {"num_classes": 2}, Status.SKIP),
        (7, {"dropout": 10}, Status.SKIP),
    ],
)
def test_settings_beside_the_head(rows: int, settings: Any, status: Status, tmp_path: Path) -> None:
    state = {"body.weight": torch.randn(16, 6), "head.weight": torch.randn(rows, 16)}
    held = {"state_dict": state, "hyper_parameters": settings, "global_step": 50}
    torch.save(held, tmp_path / "last.ckpt")
    assert verdict("CKP012", tmp_path).status is status


def save_average(path: Path, average: Any, step: int = 500) -> None:
    torch.manual_seed(0)
    weights = {"a.weight": torch.randn(64, 64), "b.weight": torch.randn(64, 64)}
    if average == "reference":
        average = weights
    elif average == "copy":
        average = {name: each * 0.99 + 0.001 for name, each in weights.items()}
    torch.save({"model": weights, "ema": average, "step": step}, path / "last.pt")


def shadow(**more: Any) -> dict[str, Any]:
    return {"decay": 0.999, "shadow": {"a.weight": torch.randn(64, 64)}, **more}


@pytest.mark.parametrize(
    ("average", "step", "status"),
    [
        (shadow(num_updates=0), 500, Status.WARN),
        (shadow(num_updates=500), 500, Status.PASS),
        (shadow(num_updates=0, update_after_step=1000), 500, Status.PASS),
        (shadow(optimization_step=0), 500, Status.WARN),
        (shadow(n_averaged=torch.tensor(0)), 500, Status.WARN),  # as AveragedModel saves it
        (shadow(n_averaged=torch.tensor(0)), 0, Status.PASS),
        (shadow(n_averaged=torch.tensor(9)), 500, Status.PASS),
        ("copy", 500, Status.PASS),
        ("reference", 500, Status.WARN),
        ("reference", 0, Status.PASS),
    ],
)
def test_an_average_that_averages_nothing(
    average: Any, step: int, status: Status, tmp_path: Path
) -> None:
    save_average(tmp_path, average, step)
    found = verdict("CKP005", tmp_path, deep=True)
    assert found.status in ({status} if status is Status.WARN else {Status.PASS, Status.NOTE})


def test_a_layer_that_is_a_copy(tmp_path: Path) -> None:
    torch.manual_seed(0)

    def saved(copied: dict[int, int], count: int = 6) -> Path:
        path = tmp_path / f"m{len(list(tmp_path.iterdir()))}"
        path.mkdir()
        layers = [{n: torch.randn(32, 32) for n in ("q", "k", "up")} for _ in range(count)]
        for here, there in copied.items():
            layers[here] = layers[there]
        held = {
            f"model.layers.{n}.{name}.weight": each.clone()
            for n, layer in enumerate(layers) for name, each in layer.items()
        }  # fmt: skip
        torch.save(held, path / "pytorch_model.bin")
        return path

    found = verdict("CKP005", saved({3: 2}), deep=True)
    assert found.status is Status.WARN
    assert "layer 3 is a copy of layer 2" in found.summary
    for copied in ({}, {3: 0, 4: 1, 5: 2}):  # a model made deeper by repeating its layers
        assert verdict("CKP005", saved(copied), deep=True).status is not Status.WARN


def test_zeros_at_step_0_are_those_of_the_beginning(tmp_path: Path) -> None:
    weights = {"a.weight": torch.randn(8, 8), "out.weight": torch.zeros(8, 8)}
    for step, status in ((0, Status.NOTE), (100, Status.WARN)):
        shutil.rmtree(tmp_path / "c", ignore_errors=True)
        (tmp_path / "c").mkdir()
        groups = {"state": {}, "param_groups": [{"params": [0, 1], "betas": (0.9, 0.99)}]}
        held = {"model": weights, "step": step, "optimizer": groups}
        torch.save(held, tmp_path / "c" / "last.pt")
        found = verdict("CKP005", tmp_path / "c", deep=True)
        assert (found.status is Status.WARN) is (status is Status.WARN)
        assert verdict("CKP009", tmp_path / "c").status is (
            Status.NOTE if step == 0 else Status.FAIL
        )


def save_adapter(path: Path, *names: str) -> None:
    """An adapter, of whose files those that are named are left out."""
    from safetensors.torch import save_file

    key = "base_model.model.h.0.attn.q_proj.lora_{}.weight"
    weights = {key.format("A"): torch.ones(2, 4), key.format("B"): torch.ones(4, 2)}
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}
    save_file(weights, path / "adapter_model.safetensors", {"format": "pt"})
    (path / "adapter_config.json").write_text(json.dumps(config))
    torch.save({"last_epoch": 3}, path / "scheduler.pt")
    (path / "tokenizer_config.json").write_text("{}")
    for name in names:
        (path / name).unlink()


def test_an_adapter_without_its_weights(tmp_path: Path) -> None:
    save_adapter(tmp_path, "adapter_model.safetensors")
    found = verdict("CKP001", tmp_path)
    assert found.status is Status.FAIL
    assert "no file of its weights" in found.summary
    assert found.fix is not None
    assert ".gitignore" in found.fix


def test_directories_that_hold_no_adapter_of_their_own(tmp_path: Path) -> None:
    request = ScanRequest(path=str(tmp_path), deep=False)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert isinstance(read(request, no_stage, lambda note: None), Unknown)
    (tmp_path / "final").mkdir()
    save_adapter(tmp_path / "final")
    (tmp_path / "adapter_config.json").write_text("{}")
    found = read(request, no_stage, lambda note: None)
    assert isinstance(found, Checkpoint)
    assert found.path == str(tmp_path / "final")
    assert verdict("CKP001", tmp_path / "final").status is Status.PASS


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1064\n"


@pytest.mark.parametrize("name", ["scheduler.pt", "rng_state.pth", "tokenizer.json"])
def test_a_pointer_beside_weights(name: str, tmp_path: Path) -> None:
    save_adapter(tmp_path)
    assert verdict("CKP001", tmp_path).status is Status.PASS
    (tmp_path / name).write_text(POINTER)
    found = verdict("CKP001", tmp_path)
    assert found.status is Status.FAIL
    assert name in found.summary
    assert "lfs pull" in found.commands[-1]


@pytest.mark.parametrize("name", ["training_args.bin", "notes.txt", "plot.png"])
def test_a_pointer_that_nothing_reads(name: str, tmp_path: Path) -> None:
    save_adapter(tmp_path)
    (tmp_path / name).write_text(POINTER)
    assert verdict("CKP001", tmp_path).status is Status.PASS


def test_the_remedy_of_a_pointer_in_a_run_is_to_fetch_it(tmp_path: Path) -> None:
    save_adapter(tmp_path)
    (tmp_path / "trainer_state.json").write_text(json.dumps({"global_step": 3, "log_history": []}))
    (tmp_path / "adapter_model.safetensors").write_text(POINTER)
    found = verdict("CKP001", tmp_path)
    assert found.fix is not None
    assert found.fix.startswith("Install git-lfs and fetch")


@pytest.mark.parametrize(
    ("further", "stepped", "status"),
    [(1, 2, Status.PASS), (1, 1, Status.WARN), (0, 2, Status.PASS)],
)
def test_a_parameter_that_the_adapter_does_not_hold(
    further: int, stepped: int, status: Status, tmp_path: Path
) -> None:
    """The optimizer of older releases of peft has the head that modules_to_save replaces."""
    save_adapter(tmp_path)
    each = {"step": torch.tensor(20.0), "exp_avg": torch.ones(2, 4), "exp_avg_sq": torch.ones(2, 4)}
    groups = [{"lr": 1e-3, "betas": (0.9, 0.99), "params": list(range(2 + further))}]
    state = {"state": dict.fromkeys(range(stepped), each), "param_groups": groups}
    torch.save(state, tmp_path / "optimizer.pt")
    assert verdict("CKP009", tmp_path).status is status
