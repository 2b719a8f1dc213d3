"""Where one cause gives several findings, the right one comes first; and its sound neighbours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from judges import judge

from doctor._util.records import Unknown
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.layouts.own_code import _blocks
from doctor.checkpoint.records import Checkpoint
from doctor.checkpoint.scan import scan
from doctor.judge.check import Status, Verdict

torch = pytest.importorskip("torch")
save_file = pytest.importorskip("safetensors.torch").save_file

INF = float("inf")
INDEX = "model.safetensors.index.json"


def scanned(path: Path, *, deep: bool = False) -> Checkpoint:
    found = read(ScanRequest(path=str(path), deep=deep), no_stage, lambda note: None)
    assert isinstance(found, Checkpoint), found
    return found


def verdict(code: str, path: Path) -> Verdict:
    return judge(code)(checkpoint=scanned(path))


def shard(number: int, count: int = 3, stem: str = "model") -> str:
    return f"{stem}-{number:05}-of-{count:05}.safetensors"


def shards(folder: Path, total: int, named: dict[str, str], stray: str, names: list[str]) -> Path:
    """Two shards of one tensor of 64 bytes that an index names, and a third file."""
    for file, tensors in ((shard(1), ["a"]), (shard(2), ["b"]), (stray, names)):
        held = {name: torch.rand(4, 4) for name in tensors}
        save_file(held, folder / file, {"format": "pt"})
    index = {"metadata": {"total_size": total}, "weight_map": named}
    (folder / INDEX).write_text(json.dumps(index))
    return folder


NAMED = {"a": shard(1), "b": shard(2)}


def test_an_index_that_leaves_out_a_shard(tmp_path: Path) -> None:
    found = scanned(shards(tmp_path, 192, NAMED, shard(3), ["lm_head.weight"]))
    assert found.contents.tensors == 3
    judged = judge("CKP001")(checkpoint=found)
    assert judged.status is Status.FAIL
    assert "names 2 of the 3 shards" in judged.summary
    assert judged.fix is not None
    assert "from the headers of all shards" in judged.fix


@pytest.mark.parametrize(
    ("total", "stray", "names"),
    [
        (128, shard(3), ["c"]),  # total_size is that of the named ones
        (192, shard(3), ["a"]),  # an earlier save: the same names
        (192, shard(3, stem="other"), ["c"]),
        (192, shard(4, 4), ["c"]),
    ],
)
def test_shards_that_do_not_belong_stay_strays(
    tmp_path: Path, total: int, stray: str, names: list[str]
) -> None:
    found = scanned(shards(tmp_path, total, NAMED, stray, names))
    assert "short-index" not in {problem.kind for problem in found.problems}
    assert found.contents.tensors == 2


def test_a_whole_index_is_right(tmp_path: Path) -> None:
    folder = shards(tmp_path, 192, {**NAMED, "c": shard(3)}, shard(3), ["c"])
    assert verdict("CKP001", folder).status is Status.PASS


@pytest.mark.filterwarnings("ignore")
def test_programs_of_torchscript_import_nothing(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    frozen = torch.jit.freeze(torch.jit.script(model.eval()))
    scripted, traced = torch.jit.script(model), torch.jit.trace(model, torch.ones(1, 2))
    for name, program in (("traced", traced), ("scripted", scripted), ("frozen", frozen)):
        path = tmp_path / f"{name}.pt"
        torch.jit.save(program, str(path))
        judged = verdict("CKP010", path)
        assert judged.status is Status.UNKNOWN
        assert "TorchScript" in judged.summary
    torch.save(model, tmp_path / "module.pt")
    assert verdict("CKP010", tmp_path / "module.pt").status is Status.WARN


def averaged(updates: int, *, model_seen: bool = True, average_seen: bool = False) -> Any:
    def state(seen: bool) -> dict[str, Any]:
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4))
        for _ in range(3 if seen else 0):
            model(torch.rand(8, 1, 6, 6) + 1)
        return model.state_dict()

    average = {f"module.{name}": value for name, value in state(average_seen).items()}
    average["n_averaged"] = torch.tensor(updates)
    return {"model": state(model_seen), "ema": average, "step": 500}


@pytest.mark.parametrize(
    ("state", "norms", "values"),
    [
        (averaged(0), Status.PASS, Status.WARN),  # one cause: the average never began
        (averaged(500), Status.WARN, Status.PASS),
        (averaged(500, average_seen=True), Status.PASS, Status.PASS),
    ],
)
def test_an_average_that_never_began(
    tmp_path: Path, state: Any, norms: Status, values: Status
) -> None:
    state["model"]["1.weight"] += 0.1
    state["ema"]["module.1.weight"] += 0.1
    torch.save(state, tmp_path / "last.pt")
    found = scanned(tmp_path)
    text = judge("CKP004")(checkpoint=found)
    assert ("batch norms of ema" in text.summary) == (norms is Status.WARN), text.summary
    assert (judge("CKP005")(checkpoint=found).status is Status.WARN) == (values is Status.WARN)


def trainer(folder: Path, scheduled: int, rates: list[tuple[int, float]], planned: int) -> Path:
    weight = torch.nn.Parameter(torch.rand(4, 4))
    optimizer = torch.optim.AdamW([weight], lr=rates[-1][1] if rates else 1e-3)
    for _ in range(20):
        weight.grad = torch.rand(4, 4)
        optimizer.step()
    save_file({"a.weight": weight.detach()}, folder / "model.safetensors", {"format": "pt"})
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    state = {"last_epoch": scheduled, "_step_count": scheduled + 1, "base_lrs": [1e-3]}
    torch.save(state, folder / "scheduler.pt")
    log = [{"step": step, "learning_rate": rate, "loss": 1.0} for step, rate in rates]
    history = {"global_step": 20, "max_steps": planned, "logging_steps": 5, "log_history": log}
    (folder / "trainer_state.json").write_text(json.dumps(history))
    return folder


FELL = [(5, 1e-3), (10, 7e-4), (15, 4e-4), (20, 6e-5)]
ENDED = [(5, 2e-4), (10, 0.0), (15, 0.0), (20, 0.0)]
ROSE = [(5, 1.5e-4), (10, 5e-4), (15, 8.5e-4), (20, 0.0)]


@pytest.mark.parametrize(
    ("rates", "planned", "refuted"),
    [(FELL, 20, True), (ENDED, 20, False), (ROSE[:3], 20, False), ([], 20, False),
     (FELL, 100, False)],
)  # fmt: skip
def test_logged_rates_refute_a_scheduler_that_was_stepped_too_often(
    tmp_path: Path, rates: list[tuple[int, float]], planned: int, refuted: bool
) -> None:
    judged = verdict("CKP021", trainer(tmp_path, 60, rates, planned))
    assert judged.status is Status.FAIL
    assert ("was stepped 3 times" in judged.summary) != refuted
    assert (judged.fix or "").startswith("Take scheduler.pt from the same save") == refuted


@pytest.mark.parametrize(
    ("family", "pad", "status"),
    [
        ("llama", 64, Status.FAIL),
        ("gpt2", 64, Status.WARN),
        ("llama", 63, Status.PASS),
        ("llama", -1, Status.PASS),
        ("llama", None, Status.PASS),
    ],
)
def test_padding_beyond_the_vocabulary(
    tmp_path: Path, family: str, pad: int | None, status: Status
) -> None:
    config = {"model_type": family, "vocab_size": 64, "pad_token_id": pad, "hidden_size": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    name = "model.embed_tokens.weight" if family == "llama" else "transformer.wte.weight"
    save_file({name: torch.rand(64, 8)}, tmp_path / "weights.safetensors", {"format": "pt"})
    (tmp_path / "tokenizer_config.json").write_text("{}")
    judged = verdict("CKP012", tmp_path)
    assert judged.status is status, judged.summary
    assert ("padding_idx" in judged.summary) == (status is Status.FAIL)


def test_subdirectories_with_weights_are_named(tmp_path: Path) -> None:
    for folder, file in (("actor", "model_rank_0.pt"), ("logs", "a.txt"), ("state", "optimizer.pt"),
                         (".cache", "model.pt")):  # fmt: skip
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_bytes(b"x")
    found = scan(str(tmp_path))
    assert isinstance(found, Unknown)
    assert found.reason.endswith("name a subdirectory with weights: actor")


MATRICES = {f"layers.{n}.mlp.up.weight": torch.rand(64, 64) for n in range(3)}


@pytest.mark.parametrize(
    "held",
    [
        {"head.bias": torch.cat([torch.rand(10), torch.full((5,), -INF)])},
        {"criterion.weight": torch.tensor([1.0, 2.0, INF])},
        {"blocks.0.bias": torch.full((1, 1, 64, 64), -INF).triu(1)},
        {f"blocks.{n}.att.mask": torch.ones(1024, 1024).triu(1) for n in range(3)},
        {
            "fc.weight": torch.cat(
                [torch.rand(200, 512), torch.zeros(80, 512), torch.rand(200, 512)]
            )
        },
        {"cross_attn.o_proj.weight": torch.zeros(64, 64)},
    ],
)
def test_without_deep_nothing_that_is_there_on_purpose_is_accused(
    tmp_path: Path, held: dict[str, Any]
) -> None:
    torch.save({"model": {**MATRICES, **held}, "step": 500}, tmp_path / "a.pt")
    judged = verdict("CKP005", tmp_path)
    assert judged.status not in (Status.WARN, Status.FAIL), judged.summary


def test_templates_are_read_in_linear_time() -> None:
    assert list(_blocks("a {{ b }} {% c %} { {{")) == [(2, 9), (10, 17)]
    assert list(_blocks("{" * (1 << 20))) == []
    assert list(_blocks("{%" * 1000 + "{{ x }}"))[-1][1] == 2007
