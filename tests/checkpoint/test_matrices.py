"""What --deep reads beside NaN: zeros, copies, and all that lies beside the weights."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
import torch  # noqa: TID253
from safetensors.torch import save_file  # noqa: TID253

from doctor.checkpoint.analysis.matrices import STEP, WINDOW
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint, Values
from doctor.checks.checkpoint.values import values_finite
from doctor.judge.check import Status


def deep(path: Path) -> tuple[Values, Checkpoint]:
    found = read(ScanRequest(path=str(path), deep=True), no_stage, lambda note: None)
    assert isinstance(found, Checkpoint)
    assert isinstance(found.values, Values)
    return found.values, found


def model(layers: int = 4, width: int = 96) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    names = [f"model.layers.{layer}.mlp.up_proj.weight" for layer in range(layers)]
    made = {name: torch.randn(width, width) for name in names}
    return {**made, "model.layers.0.mlp.up_proj.bias": torch.zeros(width)}


def status_of(path: Path) -> tuple[Status, str]:
    verdict = values_finite(deep(path)[1])
    return verdict.status, verdict.summary


def test_values_that_differ(tmp_path: Path) -> None:
    save_file(model(), tmp_path / "model.safetensors")
    values, _ = deep(tmp_path)
    assert (values.constant, values.copies, values.zero_ranges) == ((), (), ())
    assert status_of(tmp_path)[0] is Status.PASS


@pytest.mark.parametrize("share", [0.34, 0.6, 0.05])
def test_zeros_where_a_download_stopped(tmp_path: Path, share: float) -> None:
    path = tmp_path / "model.safetensors"
    save_file(model(), path)
    data = path.read_bytes()
    cut = int(len(data) * (1 - share)) // 4 * 4 + 1
    path.write_bytes(data[:cut] + bytes(len(data) - cut))
    values, _ = deep(tmp_path)
    (lost,) = values.zero_ranges
    assert lost.inside
    assert abs(lost.begin - cut) <= 4
    assert lost.end == len(data)
    status, summary = status_of(tmp_path)
    assert status is Status.WARN
    assert "unfinished download" in summary


def test_a_hole_inside_a_large_matrix(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"model.layers.0.mlp.up_proj.weight": torch.randn(2048, 2048)}, path)
    size, hole = path.stat().st_size, STEP + 2 * WINDOW
    begin = (size - hole) // 2
    with path.open("r+b") as file:
        file.seek(begin)
        file.write(bytes(hole))
    (lost,) = deep(tmp_path)[0].zero_ranges
    assert abs(lost.begin - begin) <= 4
    assert abs(lost.end - begin - hole) <= 4
    assert status_of(tmp_path)[0] is Status.WARN


def test_rows_of_tokens_that_do_not_exist(tmp_path: Path) -> None:
    """Vocabularies are padded: the last rows of an embedding may be zeros."""
    rows = torch.randn(256, 64)
    rows[200:] = 0
    save_file({"model.embed_tokens.weight": rows, **model()}, tmp_path / "model.safetensors")
    values, _ = deep(tmp_path)
    assert [each.kind for each in values.zero_ranges] == ["embedding"]
    assert status_of(tmp_path)[0] is Status.PASS


@pytest.mark.parametrize(
    ("first", "last", "status", "says"),
    [
        (150, 256, Status.PASS, ""),  # a head that is padded far
        (120, 140, Status.NOTE, "rows 120 to 139 of lm_head.weight"),
        (40, 200, Status.WARN, "unfinished download"),
    ],
)
def test_rows_of_a_head(tmp_path: Path, first: int, last: int, status: Status, says: str) -> None:
    rows = torch.randn(256, 1024)
    rows[first:last] = 0
    save_file({"lm_head.weight": rows, **model()}, tmp_path / "model.safetensors")
    found, summary = status_of(tmp_path)
    assert found is status
    assert says in summary


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("model.layers.2.mlp.up_proj.weight", Status.WARN),
        ("model.layers.2.mlp.up_proj.lora_B.weight", Status.PASS),
        ("blocks.0.adaLN_modulation.1.weight", Status.PASS),
    ],
)
def test_matrices_of_zeros(tmp_path: Path, name: str, status: Status) -> None:
    save_file({**model(), name: torch.zeros(96, 96)}, tmp_path / "model.safetensors")
    values, _ = deep(tmp_path)
    assert [(each.name, each.zero) for each in values.constant] == [(name, True)]
    assert status_of(tmp_path)[0] is status


def test_copies_are_noted(tmp_path: Path) -> None:
    made = model()
    made["model.layers.3.mlp.up_proj.weight"] = made["model.layers.1.mlp.up_proj.weight"].clone()
    made["model.layers.2.mlp.up_proj.weight"][-1, -1] += 1
    save_file(made, tmp_path / "model.safetensors")
    (copy,) = deep(tmp_path)[0].copies
    assert (copy.name[13], copy.of[13]) == ("3", "1")
    status, summary = status_of(tmp_path)
    assert status is Status.NOTE
    assert "copies" in summary


def trained(**further: Any) -> dict[str, Any]:
    made = torch.nn.Linear(32, 32)
    adam = torch.optim.AdamW(made.parameters())
    made(torch.randn(4, 32)).square().mean().backward()
    adam.step()
    return {"model": made.state_dict(), "optimizer": adam.state_dict(), "step": 1, **further}


def test_every_state_dict_and_the_moments_are_read(tmp_path: Path) -> None:
    ema = {"weight": torch.randn(32, 32), "bias": torch.randn(32)}
    torch.save(trained(ema=ema), tmp_path / "good.pt")
    values, found = deep(tmp_path / "good.pt")
    assert (values.tensors, values.further, values.moments) == (8, 2, 4)
    assert "ema (2)" in " ".join(problem.text for problem in found.problems)
    assert values_finite(found).status is Status.PASS
    ema["bias"][3] = float("nan")
    torch.save(trained(ema=ema), tmp_path / "ema.pt")
    assert status_of(tmp_path / "ema.pt") == (Status.FAIL, Contains("ema.bias"))
    state = trained()
    state["optimizer"]["state"][0]["exp_avg_sq"][:] = float("inf")
    torch.save(state, tmp_path / "moments.pt")
    assert status_of(tmp_path / "moments.pt") == (Status.FAIL, Contains("exp_avg_sq"))


def test_the_optimizers_file_of_a_trainer(tmp_path: Path) -> None:
    state = trained()
    save_file(state["model"], tmp_path / "model.safetensors")
    state["optimizer"]["state"][1]["exp_avg"][0] = float("nan")
    torch.save(state["optimizer"], tmp_path / "optimizer.pt")
    assert status_of(tmp_path) == (Status.FAIL, Contains("optimizer 1: exp_avg"))


class Contains(str):
    """Equal to every text that has it in it."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str(self) in str(other)


def test_the_sha256_that_the_hub_gave(tmp_path: Path) -> None:
    """In the cache it is the name of the blob, beside a download it is kept in .metadata."""
    save_file(model(), tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    blob, snapshot = tmp_path / "blobs" / digest, tmp_path / "snapshots" / "1" / "model.safetensors"
    blob.parent.mkdir()
    snapshot.parent.mkdir(parents=True)
    blob.write_bytes(data)
    snapshot.symlink_to(f"../../blobs/{digest}")
    local = tmp_path / "local" / "model.safetensors"
    metadata = local.parent / ".cache" / "huggingface" / "download" / f"{local.name}.metadata"
    metadata.parent.mkdir(parents=True)
    local.write_bytes(data)
    metadata.write_text(f"commit\n{digest}\n{local.stat().st_mtime}\n")
    for path in (snapshot, local):
        assert (deep(path)[0].checksums, status_of(path)[0]) == (1, Status.PASS)
    changed = bytearray(data)
    changed[-5] ^= 1
    blob.write_bytes(changed)
    local.write_bytes(changed)
    os.utime(local, (0, 0))
    for path in (snapshot, local):
        assert status_of(path) == (Status.FAIL, Contains("SHA-256 of model.safetensors"))
    metadata.write_text(f"commit\n{digest}\n-9\n")  # the file was changed after its download
    assert (deep(local)[0].checksums, status_of(local)[0]) == (0, Status.PASS)
    metadata.write_text("strange")
    assert deep(local)[0].checksums == 0


@pytest.mark.parametrize("name", ["SHA256SUMS", "checksums.txt", "model.safetensors.sha256"])
def test_a_list_of_checksums_beside_the_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file(model(), path)
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    listed = tmp_path / name
    listed.write_text(f"# of the release\n{right.upper()} *./{path.name}\n{'0' * 64}  other.bin\n")
    assert status_of(path)[0] is Status.PASS
    listed.write_text(f"{'0' * 64}  {path.name}\n")
    assert status_of(path) == (Status.WARN, Contains("SHA-256 of model.safetensors"))
    listed.write_text(f"{'0' * 64}  below/{path.name}\n{'0' * 64}\n")  # another one, and no name
    assert status_of(path)[0] is Status.PASS


@pytest.mark.parametrize(
    ("name", "empty", "status"),
    [
        ("model.embed_tokens.weight", 375, Status.WARN),
        ("model.embed_tokens.weight", 10, Status.PASS),
        ("model.embed_positions.weight", 375, Status.PASS),
    ],
)
def test_rows_of_an_embedding_that_are_zeros(
    tmp_path: Path, name: str, empty: int, status: Status
) -> None:
    """Rows here and there: a padded vocabulary has few, and positions may have any number."""
    torch.manual_seed(0)
    rows = torch.randn(500, 32)
    rows[torch.randperm(490)[:empty]] = 0
    save_file({name: rows}, tmp_path / "model.safetensors")
    found, summary = status_of(tmp_path)
    assert (found, "of the rows" in summary) == (status, status is Status.WARN)
