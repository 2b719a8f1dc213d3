"""CKP015 over weights that are larger than the rows that are measured: every row counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy  # noqa: TID253
import pytest
import torch  # noqa: TID253
from judges import judge
from safetensors.torch import save_file  # noqa: TID253

from doctor.checkpoint.analysis.merging import projection
from doctor.checkpoint.analysis.merging.products import Piece, Product, Update
from doctor.checkpoint.analysis.merging.rows import Sides, matrix_of
from doctor.checkpoint.collected import TensorCollector
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint, Merge
from doctor.checkpoint.scan import scan
from doctor.judge.check import Status

MODULE = "model.layers.0.self_attn.q_proj"
ROWS, COLUMNS = 768, 512
HALF, BRAIN = torch.float16, torch.bfloat16


def write(root: Path, name: str, tensors: dict[str, torch.Tensor]) -> Path:
    (root / name).mkdir()
    file = "adapter_model" if name == "adapter" else "model"
    save_file(tensors, root / name / f"{file}.safetensors")
    return root / name


def parts(
    size: float = 1 / 32, spread: float = 0.5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    weight = torch.randn(ROWS, COLUMNS) / 32 * torch.exp(torch.randn(ROWS, 1) * spread)
    return weight, torch.randn(8, COLUMNS) / 32, torch.randn(ROWS, 8) * size


def merged(
    root: Path,
    dtype: torch.dtype,
    change: Callable[[torch.Tensor, torch.Tensor], object] = lambda merged, base: None,
    base_dtype: torch.dtype | None = None,
    size: float = 1 / 32,
    spread: float = 0.5,
) -> Checkpoint:
    weight, down, up = parts(size, spread)
    base = weight.to(base_dtype or dtype)
    result = (base.float() + 2 * (up @ down)).to(dtype)
    change(result, base)
    under = f"base_model.model.{MODULE}.lora_"
    adapter = write(root, "adapter", {f"{under}A.weight": down, f"{under}B.weight": up})
    config = {"peft_type": "LORA", "r": 8, "lora_alpha": 16}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    request = ScanRequest(
        path=str(write(root, "merged", {f"{MODULE}.weight": result})),
        merged_from=str(write(root, "base", {f"{MODULE}.weight": base})),
        adapters=((str(adapter), 1.0),),
    )
    checkpoint = read(request, no_stage, lambda note: None)
    assert isinstance(checkpoint, Checkpoint)
    return checkpoint


@pytest.mark.parametrize("size", [3e-4, 1 / 32, 3.0])
@pytest.mark.parametrize(
    ("dtype", "base"),
    [(torch.float32, None), (BRAIN, None), (HALF, None), (BRAIN, torch.float32), (HALF, BRAIN)],
)
def test_healthy_merges_are_read_whole_and_measured_in_part(
    tmp_path: Path, dtype: torch.dtype, base: torch.dtype | None, size: float
) -> None:
    checkpoint = merged(tmp_path, dtype, base_dtype=base, size=size)
    assert judge("CKP015")(checkpoint=checkpoint).status not in (Status.FAIL, Status.UNKNOWN)
    assert isinstance(checkpoint.merge, Merge)
    assert checkpoint.merge.weights[0].elements < ROWS * COLUMNS / 2
    width = torch.finfo(dtype).bits // 8 + torch.finfo(base or dtype).bits // 8
    assert checkpoint.merge.bytes >= ROWS * COLUMNS * width


def one_element(result: torch.Tensor, base: torch.Tensor) -> None:
    result[401, 77] += 1


def one_row(result: torch.Tensor, base: torch.Tensor) -> None:
    result[401] = base[401]


def some_rows(result: torch.Tensor, base: torch.Tensor) -> None:
    result[512:] = base[512:]


def not_a_number(result: torch.Tensor, base: torch.Tensor) -> None:
    result[401, 77] = float("nan")


def infinite(result: torch.Tensor, base: torch.Tensor) -> None:
    result[401, 76] = float("inf")


@pytest.mark.parametrize("dtype", [torch.float32, BRAIN, HALF])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (one_element, "row 401"),
        (one_row, "row 401"),
        (some_rows, "rows"),
        (not_a_number, "NaN or Inf"),
        (infinite, "NaN or Inf"),
    ],
)
def test_rows_between_the_measured_ones(
    tmp_path: Path,
    dtype: torch.dtype,
    change: Callable[[torch.Tensor, torch.Tensor], object],
    words: str,
) -> None:
    verdict = judge("CKP015")(checkpoint=merged(tmp_path, dtype, change))
    assert verdict.status is Status.FAIL
    assert words in verdict.summary


def test_many_small_deviations_add_up(tmp_path: Path) -> None:
    """Each of these rows alone is within what roundings leave."""

    def a_group(result: torch.Tensor, base: torch.Tensor) -> None:
        result[384:448] = base[384:448]

    for size, sought in ((1e-5, False), (8e-4, True)):
        (tmp_path / str(size)).mkdir()
        checkpoint = merged(tmp_path / str(size), BRAIN, a_group, size=size, spread=0)
        assert isinstance(checkpoint.merge, Merge)
        weight = checkpoint.merge.weights[0]
        assert weight.rows_off == 0
        assert (weight.rows > 128 + 40) is sought


@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS - 1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, BRAIN, HALF])
def test_projections_are_those_of_the_whole_rows(
    tmp_path: Path, dtype: torch.dtype, columns: int
) -> None:
    weight, down, up = parts()
    weight[3, :5] = torch.tensor([0, 6e-8, -3e-5, 6e4, -6e4])  # fp16: subnormal, nearly infinite
    base, down = weight[:, :columns].to(dtype).contiguous(), down[:, :columns].contiguous()
    result = (base.double() + (up @ down).double()).to(dtype)
    sides = []
    for name, tensor in (("one", base), ("other", result)):
        found = TensorCollector()
        scan(str(write(tmp_path, name, {"w": tensor})), no_stage, found.collect)
        assert found.directory is not None
        sides.append((OpenFiles(found.directory), matrix_of(next(iter(found.tensors)))))
    piece = Piece(0, ROWS, Product(up.numpy(), down.numpy()))
    found_rows = projection.project(Sides(*sides[0], *sides[1], ROWS), [Update(0, (piece,))])
    step = min(projection.GROUP, projection.BLOCK // columns)
    vectors = [torch.from_numpy(each.whole).double() for each in projection.signs_of(columns)]
    signs = torch.stack([vectors[row // step % len(vectors)] for row in range(ROWS)])
    exact = ((result.double() - base.double() - up.double() @ down.double()) * signs).sum(1)
    # in the upper half of each word, the bits of the lower one are in the number, too
    near = {BRAIN: 3e-3, HALF: 1e-3}.get(dtype, 1e-5)
    sizes = numpy.linalg.norm(base.double().numpy(), axis=1)
    assert (numpy.abs(found_rows.left - exact.numpy()) <= near * sizes).all()
    for file, _ in sides:
        file.close()
