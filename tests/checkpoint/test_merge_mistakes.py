"""CKP015, CKP013 and CKP017: merges by hand with known mistakes, adapters that do not load."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch  # noqa: TID253
from judges import judge
from safetensors.torch import save_file  # noqa: TID253

from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint
from doctor.judge.check import Status

State = dict[str, torch.Tensor]
MODULES = [f"model.layers.{n}.self_attn.{part}_proj" for n in range(3) for part in "qo"]
LEAD = "base_model.model."


def base() -> State:
    torch.manual_seed(0)
    weights = {f"{module}.weight": torch.randn(64, 64) / 8 for module in MODULES}
    return {**weights, "model.embed_tokens.weight": torch.randn(40, 64)}


def factors(dora: bool = False) -> State:
    torch.manual_seed(1)
    found = {}
    for module in MODULES:
        found[f"{LEAD}{module}.lora_A.weight"] = torch.randn(8, 64) / 8
        found[f"{LEAD}{module}.lora_B.weight"] = torch.randn(64, 8) / 8
    if dora:
        found |= {f"{LEAD}{module}.lora_magnitude_vector": 1 + torch.rand(64) for module in MODULES}
    return found


def product(module: str) -> torch.Tensor:
    found = factors()
    up, down = (found[f"{LEAD}{module}.lora_{side}.weight"] for side in "BA")
    return 2 * (up @ down)


def write(root: Path, name: str, weights: State, **config: Any) -> Path:
    (root / name).mkdir()
    file = "adapter_model" if config.get("peft_type") else "model"
    save_file({n: e.contiguous() for n, e in weights.items()}, root / name / f"{file}.safetensors")
    if config:
        described = "adapter_config" if config.get("peft_type") else "config"
        (root / name / f"{described}.json").write_text(json.dumps(config))
    return root / name


LORA = {"peft_type": "LORA", "r": 8, "lora_alpha": 16}


def scanned(path: Path, **request: Any) -> Checkpoint:
    found = read(ScanRequest(path=str(path), **request), no_stage, lambda note: None)
    assert isinstance(found, Checkpoint), found
    return found


def another(module: str, old: str, new: str) -> torch.Tensor:
    names = {old: new, new: old}
    return product(next((module.replace(o, n) for o, n in names.items() if o in module), module))


def some_rows(module: str) -> torch.Tensor:
    change = product(module)
    change[32:] = 0
    return change


@pytest.mark.parametrize(
    ("change", "config", "words"),
    [
        (product, {}, ""),
        (lambda module: product(module).T, {}, "its product, transposed"),
        (lambda module: another(module, "q_proj", "o_proj"), {}, "the product of"),
        (lambda module: another(module, "layers.0", "layers.1"), {}, "the product of"),
        (some_rows, {}, "in a part of the rows alone"),
        (product, {"use_dora": True}, "without the magnitudes of DoRA"),
        (lambda module: torch.randn(64, 64) / 8, {}, "another adapter was merged"),
        (product, {"alpha_pattern": {"o_proj": 64}}, "alpha_pattern or rank_pattern"),
    ],
)
@pytest.mark.parametrize("deep", [False, True])
def test_mistakes_of_merges(
    tmp_path: Path, change: Callable[[str], torch.Tensor], config: dict[str, Any], words: str,
    deep: bool,
) -> None:  # fmt: skip
    weights = base()
    merged = {
        name: each + change(name.removesuffix(".weight")) if "proj" in name else each
        for name, each in weights.items()
    }
    write(tmp_path, "adapter", factors(dora="use_dora" in config), **LORA, **config)
    checkpoint = scanned(
        write(tmp_path, "merged", merged),
        merged_from=str(write(tmp_path, "base", weights)),
        adapters=((str(tmp_path / "adapter"), 1.0),),
        deep=deep,
    )
    verdict = judge("CKP015")(checkpoint=checkpoint)
    assert verdict.status is (Status.FAIL if words else Status.PASS), verdict.summary
    assert words in verdict.summary
    if words:
        assert "merge again" in (verdict.fix or "").casefold()


def first_half(state: State) -> State:
    return {
        name: each * (0 if "lora_B" in name and "layers.2" in name else 1)
        for name, each in state.items()
    }


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        (lambda state: state, Status.PASS, ""),
        (
            lambda state: {n.removeprefix(LEAD): e for n, e in state.items()},
            Status.FAIL,
            "passes over",
        ),
        (lambda state: {LEAD + n: e for n, e in state.items()}, Status.FAIL, "passes over"),
        (
            lambda state: {n.replace(".weight", ".default.weight"): e for n, e in state.items()},
            Status.FAIL,
            "passes over",
        ),
        (lambda state: dict(list(state.items())[1:]), Status.FAIL, "one of the two factors"),
        (lambda state: base(), Status.FAIL, "none of the 7 tensors"),
        (first_half, Status.WARN, "2 of 6 tensors lora_B are zero"),
    ],
)
def test_adapters_that_load_in_part(
    tmp_path: Path, change: Callable[[State], State], status: Status, words: str
) -> None:
    path = write(tmp_path, "adapter", change(factors()), **LORA)
    verdict = judge("CKP013")(checkpoint=scanned(path))
    assert verdict.status is status, verdict.summary
    assert words in verdict.summary


def test_an_adapter_without_its_configuration(tmp_path: Path) -> None:
    path = write(tmp_path, "adapter", factors(), **LORA)
    (path / "adapter_config.json").unlink()
    assert judge("CKP013")(checkpoint=scanned(path)).status is Status.FAIL


COMMITS = ("a" * 40, "b" * 40)


@pytest.mark.parametrize(
    ("named", "revision", "status"),
    [
        ("org/model", COMMITS[0], Status.PASS),
        ("Org/Model", None, Status.PASS),
        ("../base", None, Status.PASS),
        ("org/model", COMMITS[1], Status.WARN),
        ("org/model-instruct", None, Status.WARN),
    ],
)
def test_the_base_by_its_name_and_commit(
    tmp_path: Path, named: str, revision: str | None, status: Status
) -> None:
    adapter = {**LORA, "base_model_name_or_path": named, "revision": revision}
    write(tmp_path, "adapter", factors(), **adapter)
    snapshots = tmp_path / "models--org--model" / "snapshots"
    snapshots.mkdir(parents=True)
    cached = write(snapshots, COMMITS[0], base(), model_type="x")
    adapters = ((str(tmp_path / "adapter"), 1.0),)
    assert judge("CKP017")(checkpoint=scanned(cached, adapters=adapters)).status is status
    own = write(tmp_path, "own", base(), _name_or_path="org/model")
    verdict = judge("CKP017")(checkpoint=scanned(own, adapters=adapters))
    assert verdict.status is (Status.NOTE if named.endswith("instruct") else Status.PASS)
