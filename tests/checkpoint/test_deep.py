"""Every stored value looked at: against torch, at every border, and while files change."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy  # noqa: TID253
import pytest
import torch  # noqa: TID253
from elsewhere import Elsewhere
from safetensors.torch import save_file  # noqa: TID253

from doctor._util.records import Unknown
from doctor.checkpoint.analysis.deep import is_mask, scan_values
from doctor.checkpoint.analysis.nonfinite import (
    FINITE,
    FORMATS,
    Tally,
    first_counted,
    magnitude,
    tally,
)
from doctor.checkpoint.analysis.value_ranges import merge
from doctor.checkpoint.analysis.value_reader import CHUNK, PIECE
from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.formats.safetensors import read_shard
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.records import NonFinite, Values
from doctor.checkpoint.tensors import Part, Tensor

NAN = float("nan")
INF = float("inf")

TORCH = {
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E8M0": torch.float8_e8m0fnu,
}
WIDE = {"F32": torch.float32, "F64": torch.float64}


def tensors(folder: Path) -> list[Tensor]:
    """What the headers of a folder's files list."""
    found: list[Tensor] = []
    for path in sorted(folder.glob("*.safetensors")):
        with LocalDirectory(folder).open(path.name) as source:
            shard = read_shard(source, path.name)
        assert not shard.problems
        found += shard.tensors
    return found


def looked(folder: Path, threads: int = 1, **options: Any) -> Values:
    found = scan_values(LocalDirectory(folder), tensors(folder), threads, **options)
    assert isinstance(found, Values), found
    return found


def raw(name: str, dtype: str, shape: tuple[int, ...], begin: int, size: int) -> Tensor:
    elements = int(numpy.prod(shape, dtype=numpy.int64))
    return Tensor(name, dtype, shape, elements, "raw", begin, begin + size)


def only(found: Values) -> NonFinite:
    assert len(found.nonfinite) == 1, found.nonfinite
    return found.nonfinite[0]


def counts(found: NonFinite) -> tuple[int, int, int, int]:
    return found.nan, found.plus_inf, found.minus_inf, found.first


def is_counted(dtype: str, codes: Any) -> bool:
    return magnitude(dtype, codes.view("u1")) >= first_counted(dtype)


def truth(values: torch.Tensor) -> tuple[int, int, int]:
    wide = values.to(torch.float64)
    return (
        int(wide.isnan().sum()),
        int((wide == INF).sum()),
        int((wide == -INF).sum()),
    )


@pytest.mark.parametrize("dtype", TORCH)
def test_every_code_of_8_and_16_bits_is_judged_as_torch_judges_it(dtype: str) -> None:
    size = FORMATS[dtype].size
    codes = numpy.arange(1 << 8 * size, dtype=f"u{size}")
    values = torch.from_numpy(codes.view(f"i{size}").copy()).view(TORCH[dtype]).to(torch.float64)
    large = (values.abs() > 32752) & values.isfinite() if dtype == "F16" else values.isnan() & False
    for code, finite, over in zip(codes, values.isfinite().tolist(), large.tolist(), strict=True):
        one = numpy.array([code])
        assert (magnitude(dtype, one.view("u1")) >= first_counted(dtype)) == (not finite or over), (
            hex(code)
        )
    found, bad = tally(dtype, codes)
    assert (found.nan, found.plus_inf, found.minus_inf) == truth(values)
    assert found.large == int(large.sum())
    assert bad.tolist() == (~values.isfinite()).tolist()


@pytest.mark.parametrize("dtype", WIDE)
def test_wide_floats_are_judged_as_torch_judges_them(dtype: str) -> None:
    size = FORMATS[dtype].size
    inf = FORMATS[dtype].top + 1
    edges = [
        code + step
        for code in (0, inf, FORMATS[dtype].sign, FORMATS[dtype].sign + inf)
        for step in (-2, -1, 0, 1, 2)
    ]
    some = numpy.random.default_rng(0).integers(0, 1 << 8 * size, 400_000, f"u{size}")
    codes = numpy.concatenate([some, numpy.array([e % (1 << 8 * size) for e in edges], f"u{size}")])
    values = torch.from_numpy(codes.view(f"i{size}").copy()).view(WIDE[dtype])
    found, bad = tally(dtype, codes)
    assert (found.nan, found.plus_inf, found.minus_inf) == truth(values)
    assert bad.tolist() == (~values.isfinite()).tolist()
    for code, finite in zip(codes[-3000:], values[-3000:].isfinite().tolist(), strict=True):
        assert (magnitude(dtype, numpy.array([code]).view("u1")) >= first_counted(dtype)) == (
            not finite
        ), hex(code)


def test_every_dtype_of_safetensors_has_a_rule_or_needs_none() -> None:
    assert set(BITS) <= set(FORMATS) | FINITE
    assert not set(FORMATS) & FINITE


def test_values_of_every_kind_are_counted_and_placed(tmp_path: Path) -> None:
    weight = torch.zeros(1000, 1000, dtype=torch.bfloat16)
    weight[999, 999], weight[500, 0], weight[500, 1] = NAN, INF, -INF
    pairs = torch.zeros(7, dtype=torch.complex64)
    pairs[3] = complex(0, NAN)
    data = {
        "weight": weight,
        "pairs": pairs,
        "fine": torch.ones(3),
        "whole": torch.arange(4),
        "empty": torch.zeros(0, 4),
        "scalar": torch.tensor(NAN),
    }
    save_file(data, tmp_path / "a.safetensors")
    found = looked(tmp_path)
    assert (found.tensors, found.exempt, found.nonfinite_tensors) == (5, 1, 3)
    by_name = {tensor.name: tensor for tensor in found.nonfinite}
    assert counts(by_name["weight"]) == (1, 1, 1, 500_000)
    assert (by_name["pairs"].nan, by_name["pairs"].first, by_name["pairs"].values) == (1, 3, 14)
    assert counts(by_name["scalar"]) == (1, 0, 0, 0)
    assert found.bytes == sum(t.nbytes for n, t in data.items() if n != "whole")


def test_finite_extremes_are_no_findings(tmp_path: Path) -> None:
    data = {
        str(dtype): torch.tensor([torch.finfo(dtype).min, torch.finfo(dtype).max]).to(dtype)
        for dtype in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
    }
    data["double"] = torch.tensor([torch.finfo(torch.float64).min], dtype=torch.float64)
    save_file(data, tmp_path / "a.safetensors")
    assert looked(tmp_path).nonfinite == ()


@pytest.mark.parametrize(
    "place",
    [
        0,
        1,
        CHUNK // 2 - 1,
        CHUNK // 2,
        CHUNK // 2 + 1,
        PIECE // 2 - 1,
        PIECE // 2,
        PIECE // 2 + 7,
        (PIECE + CHUNK) // 2,
        (PIECE + CHUNK) // 2 + 2,
    ],
)
def test_a_single_value_is_found_at_every_border(tmp_path: Path, place: int) -> None:
    count = (PIECE + CHUNK) // 2 + 3
    data = numpy.zeros(count, "u2")
    data[place] = 0x7FC1
    for begin in (0, 1, 13):  # a header of any length may stand before it
        (tmp_path / "raw").write_bytes(b"\xff" * begin + data.tobytes() + b"\xff\xff")
        found = scan_values(
            LocalDirectory(tmp_path), [raw("x", "BF16", (count,), begin, 2 * count)], 2
        )
        assert isinstance(found, Values)
        assert counts(only(found)) == (1, 0, 0, place)


def test_neighbours_are_told_apart(tmp_path: Path) -> None:
    torch.manual_seed(0)
    data = {f"layer.{n:03}": torch.randn(n % 7 * 1000 + 1).bfloat16() for n in range(200)}
    bad = {f"layer.{n:03}": n % 7 * 1000 for n in (0, 3, 50, 51, 199)}
    for name, last in bad.items():
        data[name][last] = INF
    save_file(data, tmp_path / "a.safetensors")
    found = looked(tmp_path)
    assert {tensor.name: tensor.first for tensor in found.nonfinite} == bad
    assert len(merge(tensors(tmp_path))) == 1


def test_several_files_and_any_number_of_threads_give_one_answer(tmp_path: Path) -> None:
    torch.manual_seed(1)
    for file in range(5):
        data = {
            f"{file}.{n}": torch.randn(300_000 + n).to(dtype)
            for n, dtype in enumerate(
                (torch.bfloat16, torch.float16, torch.float32, torch.float64) * 4
            )
        }
        for n in range(file):
            data[f"{file}.{n}"][torch.randint(300_000, (50,))] = NAN
            data[f"{file}.{n}"][torch.randint(300_000, (5,))] = -INF
        save_file(data, tmp_path / f"{file}.safetensors")
    answers = [looked(tmp_path, threads) for threads in (1, 2, 5)]
    assert answers[0].nonfinite_tensors == 10
    for name in ("nonfinite", "bytes", "tensors", "fp16_values", "problems"):
        assert len({getattr(answer, name) for answer in answers}) == 1
    for tensor in answers[0].nonfinite:
        from safetensors import safe_open

        with safe_open(tmp_path / f"{tensor.name[0]}.safetensors", "pt") as opened:
            value = opened.get_tensor(tensor.name)
        first = int((~value.isfinite()).nonzero()[0])
        assert counts(tensor) == (*truth(value), first)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("model.causal_mask", True),
        ("attn_mask", True),
        ("h.0.attn.masked_bias", True),
        ("h.0.attn.bias", True),
        ("attention_bias", True),
        ("decoder.mask", True),
        ("text.attention_mask", True),
        ("self_attn.q_proj.bias", False),
        ("mlp.bias", False),
        ("mask_token", False),
        ("masked_spec_embed", False),
        ("h.0.attn.weight", False),
    ],
)
def test_minus_infinity_is_right_in_masks_alone(tmp_path: Path, name: str, right: bool) -> None:
    assert is_mask(name) == right
    mask = torch.full((4, 5), -INF).triu(1)
    save_file({name: mask}, tmp_path / "a.safetensors")
    found = looked(tmp_path)
    assert only(found).masks == right
    assert only(found).minus_inf == 10
    assert found.nonfinite_tensors == (0 if right else 1)
    mask[0, 0] = NAN
    save_file({name: mask}, tmp_path / "a.safetensors")
    assert not only(looked(tmp_path)).masks


TRIANGLE = torch.full((6, 6), -INF).triu(1)


@pytest.mark.parametrize(
    ("values", "right"),
    [
        (TRIANGLE, True),
        (TRIANGLE.half()[None, None], True),
        (torch.full((2, 6, 6), -INF).tril(-1), True),
        (torch.where(torch.eye(6) > 0, -INF, TRIANGLE), True),
        (TRIANGLE + 0.5, False),
        (torch.full((6, 8), -INF).triu(1), False),
        (torch.where(torch.arange(36).view(6, 6) == 30, -INF, TRIANGLE), False),
        (TRIANGLE[2:3, 3:4], False),
    ],
)
def test_a_causal_mask_is_known_by_its_values(
    tmp_path: Path, values: torch.Tensor, right: bool
) -> None:
    save_file({"past": values.contiguous()}, tmp_path / "a.safetensors")
    assert only(looked(tmp_path)).masks == right


def test_fp16_values_near_its_end_are_counted(tmp_path: Path) -> None:
    values = torch.tensor([1.0, 32752.0, 32768.0, -40000.0, 65504.0, -65504.0, INF]).half()
    data = {"a": values, "b": torch.ones(100).half(), "c": torch.full((9,), 6e4)}
    save_file(data, tmp_path / "a.safetensors")
    found = looked(tmp_path)
    assert (found.fp16_values, found.fp16_large) == (107, 4)
    assert [(one.name, one.values, one.large) for one in found.large] == [("a", 7, 4)]
    assert counts(only(found)) == (0, 1, 0, 6)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[:, 10:30],
        lambda x: x[5:9].t(),
        lambda x: x[::3, ::2],
        lambda x: x.reshape(10, 5, 10, 4).permute(3, 1, 0, 2),
        lambda x: x[7].expand(6, 40),
    ],
)
def test_views_count_their_own_values_in_their_own_order(tmp_path: Path, view: Any) -> None:
    torch.manual_seed(2)
    whole = torch.randn(50, 40)
    whole.view(-1)[torch.randint(2000, (60,))] = NAN
    part = view(whole)
    (tmp_path / "raw").write_bytes(b"....." + whole.numpy().tobytes())
    begin = 5 + 4 * part.storage_offset()
    reach = 1 + sum((n - 1) * s for n, s in zip(part.shape, part.stride(), strict=True))
    tensor = msgspec.structs.replace(
        raw("x", "F32", tuple(part.shape), begin, 4 * reach), strides=part.stride()
    )
    found = scan_values(LocalDirectory(tmp_path), [tensor], 1)
    assert isinstance(found, Values)
    bad = part.contiguous().isnan().flatten()
    if part.stride()[0] == 0:
        bad = part[0].isnan()  # values that are stored once count once
    first = int(bad.nonzero()[0])
    assert (only(found).nan, only(found).first) == (int(bad.sum()), first)


def test_tensors_in_parts_and_tied_ones_are_all_named(tmp_path: Path) -> None:
    data = numpy.zeros(3000, "f4")
    data[[100, 2500]] = numpy.nan
    for name, begin, end in (("one", 0, 2000), ("two", 2000, 3000)):
        (tmp_path / name).write_bytes(b"head" + data[begin:end].tobytes())
    parts = (Part("one", 4, 8004), Part("two", 4, 4004))
    flat = Tensor("flat", "F32", (3000,), 3000, "one", 4, 8004, None, parts)
    tied = Tensor("tied", "F32", (1000,), 1000, "two", 4, 4004)
    found = scan_values(
        LocalDirectory(tmp_path), [flat, tied, msgspec.structs.replace(tied, name="other")], 2
    )
    assert isinstance(found, Values)
    assert {one.name: (one.nan, one.first) for one in found.nonfinite} == {
        "flat": (2, 100),
        "tied": (1, 500),
        "other": (1, 500),
    }
    assert found.bytes == 12_000


def sparse(folder: Path, pieces: int) -> list[Tensor]:
    size = pieces * PIECE
    header = {"x": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}
    text = str(header).replace("'", '"').encode()
    with (folder / "a.safetensors").open("wb") as output:
        output.write(struct.pack("<Q", len(text)) + text)
        output.truncate(8 + len(text) + size)
    return tensors(folder)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_file_cut_short_while_it_is_read_is_a_problem(tmp_path: Path, threads: int) -> None:
    stored = sparse(tmp_path, 8)

    def cut(done: int, total: int) -> None:
        other = threading.Thread(target=os.truncate, args=(tmp_path / "a.safetensors", 4 * PIECE))
        other.start()
        other.join()

    found = scan_values(LocalDirectory(tmp_path), stored, threads, cut)
    assert isinstance(found, Values)
    (problem,) = found.problems
    assert (problem.file, problem.kind) == ("a.safetensors", "damaged")
    assert "while its values were read" in problem.text
    assert found.bytes < 8 * PIECE


def overwrite(path: Path) -> None:
    with path.open("r+b") as output:
        output.seek(1000)
        output.write(b"\xff" * 100)


def replace(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(b"\xff" * 1000)
    other.replace(path)


@pytest.mark.parametrize("change", [overwrite, replace, Path.unlink])
def test_a_file_changed_while_it_is_read_is_a_problem(tmp_path: Path, change: Any) -> None:
    stored = sparse(tmp_path, 3)
    changed: list[bool] = []

    def once(done: int, total: int) -> None:
        if not changed:
            changed.append(True)
            change(tmp_path / "a.safetensors")

    found = scan_values(LocalDirectory(tmp_path), stored, 1, once)
    assert isinstance(found, Values)
    assert [problem.file for problem in found.problems] == ["a.safetensors"]


def test_what_is_missing_or_cut_short_before_is_a_problem_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(bytes(1000))
    good = raw("good", "F32", (100,), 0, 400)
    cut = raw("cut", "F32", (1000,), 400, 4000)
    found = scan_values(
        LocalDirectory(tmp_path), [good, cut, msgspec.structs.replace(good, file="gone")], 1
    )
    assert isinstance(found, Values)
    assert {one.file: one.text for one in found.problems} == {
        "raw": "ended at byte 1,000 while its values were read",
        "gone": "is missing",
    }


def test_progress_ends_with_everything(tmp_path: Path) -> None:
    stored = sparse(tmp_path, 5)
    calls: list[tuple[int, int]] = []
    scan_values(
        LocalDirectory(tmp_path), stored, 2, lambda done, total: calls.append((done, total))
    )
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1] == (5 * PIECE, 5 * PIECE)


def test_what_the_progress_raises_ends_the_scan(tmp_path: Path) -> None:
    stored = sparse(tmp_path, 50)
    calls: list[int] = []

    def stop(done: int, total: int) -> None:
        calls.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan_values(LocalDirectory(tmp_path), stored, 2, stop)
    assert len(calls) <= 2


def test_what_is_not_on_this_machine_is_not_downloaded_unasked() -> None:
    folder = Elsewhere({"raw": numpy.array([1, numpy.nan], "f4").tobytes()}, "memory://here")
    stored = [raw("x", "F32", (2,), 0, 8)]
    refused = scan_values(folder, stored)
    assert isinstance(refused, Unknown)
    assert refused.reason.startswith("memory://here is not on this machine")
    assert "8 bytes" in refused.reason
    found = scan_values(folder, stored, download=True)
    assert isinstance(found, Values)
    assert counts(only(found)) == (1, 0, 0, 1)


def test_dtypes_that_nobody_knows_are_told(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(b"\xff" * 8)
    found = scan_values(LocalDirectory(tmp_path), [raw("x", "U3", (2,), 0, 8)], 1)
    assert isinstance(found, Values)
    assert (found.unchecked, found.tensors, found.bytes) == ({"U3": 1}, 0, 0)


def test_without_numpy_nothing_is_said(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "from doctor.checkpoint.analysis.deep import scan_values\n"
        "from doctor.checkpoint.io.files import LocalDirectory\n"
        "from pathlib import Path\n"
        "print(scan_values(LocalDirectory(Path('.')), []))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert "needs numpy, which is not installed" in done.stdout


def test_tallies_add_up() -> None:
    found = Tally()
    found.add(Tally(nan=1, first=7))
    found.add(Tally(minus_inf=2, first=3))
    found.add(Tally(large=4))
    assert found == Tally(nan=1, minus_inf=2, large=4, first=3)


@pytest.mark.parametrize(("largest", "outliers"), [(1e30, 1), (1e12, 0)])
def test_moments_of_another_size(tmp_path: Path, largest: float, outliers: int) -> None:
    moments = torch.rand(8, 8)
    moments[3, 5] = largest
    save_file({"0.exp_avg_sq": moments}, tmp_path / "optimizer.safetensors")
    stored = tensors(tmp_path)
    found = scan_values(LocalDirectory(tmp_path), (), 1, moments=stored)
    assert isinstance(found, Values)
    assert [each.name for each in found.outliers] == ["0.exp_avg_sq"] * outliers


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("slot", "value", "named"),
    [
        ("exp_avg_sq", -1e-9, 1),
        ("square_avg", -3.0, 1),
        ("exp_avg_sq", -0.0, 0),
        ("exp_avg_sq", 0.0, 0),
        ("exp_avg", -1.0, 0),
    ],
)
def test_means_of_squares_are_not_negative(
    tmp_path: Path, slot: str, value: float, named: int, dtype: torch.dtype
) -> None:
    moments = torch.rand(600, 600).to(dtype)
    moments[577, 5] = value
    save_file({"before": -moments, slot: moments}, tmp_path / "optimizer.safetensors")
    stored = [
        msgspec.structs.replace(each, name=f"optimizer 0: {each.name}")
        for each in tensors(tmp_path)
    ]
    found = scan_values(LocalDirectory(tmp_path), (), 2, moments=stored)
    assert isinstance(found, Values)
    assert len(found.negative) == named
