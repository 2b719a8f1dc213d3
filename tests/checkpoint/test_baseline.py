"""What moved between two checkpoints, most of them of real trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy  # noqa: TID253
import pytest
import torch  # noqa: TID253
from elsewhere import Elsewhere
from safetensors.torch import save_file  # noqa: TID253

from doctor._util.records import Unknown
from doctor.checkpoint.analysis.baseline import FIRST, NEXT, compare
from doctor.checkpoint.analysis.float_decode import floats
from doctor.checkpoint.formats.safetensors import read_shard
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.records import Movement
from doctor.checkpoint.tensors import Part, Tensor

State = dict[str, torch.Tensor]


def stored(folder: Path) -> list[Tensor]:
    found: list[Tensor] = []
    for path in sorted(folder.glob("*.safetensors")):
        with LocalDirectory(folder).open(path.name) as source:
            found += read_shard(source, path.name).tensors
    return found


def between(tmp_path: Path, now: State, then: State) -> Movement | Unknown:
    for name, state in (("now", now), ("then", then)):
        (tmp_path / name).mkdir(exist_ok=True)
        save_file(
            {key: value.detach().clone() for key, value in state.items()},
            tmp_path / name / "model.safetensors",
        )
    return compared(tmp_path / "now", tmp_path / "then")


def compared(now: Path, then: Path) -> Movement | Unknown:
    return compare(LocalDirectory(now), stored(now), LocalDirectory(then), stored(then))


def moves(tmp_path: Path, now: State, then: State) -> Movement:
    found = between(tmp_path, now, then)
    assert isinstance(found, Movement)
    return found


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.input_layernorm = torch.nn.RMSNorm(width)
        self.self_attn = torch.nn.ModuleDict({"q_proj": torch.nn.Linear(width, width, bias=False)})
        self.mlp = torch.nn.ModuleDict({"up_proj": torch.nn.Linear(width, width, bias=False)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.input_layernorm(x)
        return x + self.mlp["up_proj"](torch.relu(self.self_attn["q_proj"](normed)))


class Model(torch.nn.Module):
    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.embed_tokens = torch.nn.Embedding(50, width)
        self.layers = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = torch.nn.RMSNorm(width)
        self.lm_head = torch.nn.Linear(width, 50, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed_tokens(x)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def trained(dtype: torch.dtype, steps: int = 5, lr: float = 1e-4) -> tuple[State, State]:
    """A model's weights after some steps of AdamW, and before them."""
    torch.manual_seed(0)
    model = Model().to(dtype)
    before = {name: value.detach().clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    for _ in range(steps):
        tokens = torch.randint(50, (8, 16))
        logits = model(tokens).float().flatten(0, 1)
        torch.nn.functional.cross_entropy(logits, tokens.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return dict(model.state_dict()), before


def test_bf16_weights_move_and_their_norms_do_not(tmp_path: Path) -> None:
    found = moves(tmp_path, *trained(torch.bfloat16))
    assert (found.changed, found.unchanged, found.compared) == (8, 4, 12)
    assert found.kinds == {
        "attention": (3, 3),
        "MLP": (3, 3),
        "embedding": (1, 1),
        "head": (1, 1),
        "norm": (0, 4),
    }
    assert [
        (one.role, one.kind, one.dtype, one.count, one.compared) for one in found.unchanged_roles
    ] == [
        ("layers.*.input_layernorm.weight", "norm", "BF16", 3, 3),
        ("norm.weight", "norm", "BF16", 1, 1),
    ]
    assert found.unchanged_roles[0].names == tuple(
        f"layers.{n}.input_layernorm.weight" for n in range(3)
    )
    assert (found.incomparable, found.added, found.removed) == (0, 0, 0)
    assert found.baseline == str(tmp_path / "then")


def test_fp32_weights_all_move(tmp_path: Path) -> None:
    found = moves(tmp_path, *trained(torch.float32))
    assert (found.changed, found.unchanged, found.unchanged_roles) == (12, 0, ())


def test_a_frozen_layer_is_named_beside_those_of_its_role(tmp_path: Path) -> None:
    now, then = trained(torch.float32)
    frozen = "layers.1.mlp.up_proj.weight"
    now[frozen] = then[frozen]
    (still,) = moves(tmp_path, now, then).unchanged_roles
    assert (still.kind, still.count, still.compared, still.names) == ("MLP", 1, 3, (frozen,))


def test_an_untrained_copy_is_read_whole_and_has_not_moved(tmp_path: Path) -> None:
    now, _ = trained(torch.float32)
    found = moves(tmp_path, now, now)
    assert (found.changed, found.unchanged) == (0, 12)
    assert found.bytes == 2 * sum(value.nbytes for value in now.values())


def test_names_shapes_and_dtypes_that_changed_are_no_movement(tmp_path: Path) -> None:
    now, then = trained(torch.float32)
    now["added.weight"] = torch.ones(2)
    then["gone.a"], then["gone.b"] = torch.ones(2), torch.ones(2)
    now["lm_head.weight"] = now["lm_head.weight"][:49]
    now["embed_tokens.weight"] = now["embed_tokens.weight"].half()
    found = moves(tmp_path, now, then)
    assert (found.added, found.added_names) == (1, ("added.weight",))
    assert (found.removed, found.removed_names) == (2, ("gone.a", "gone.b"))
    assert (found.changed, found.unchanged, found.incomparable) == (10, 0, 2)
    assert {one.reason: (one.count, one.names) for one in found.reasons} == {
        "the shape changed": (1, ("lm_head.weight",)),
        "the dtype changed from F32 to F16": (1, ("embed_tokens.weight",)),
    }


def norms(now: torch.Tensor, then: torch.Tensor, tmp_path: Path) -> tuple[int, int, int]:
    found = moves(tmp_path, {"model.norm.weight": now}, {"model.norm.weight": then})
    assert (found.changed == 0) or not found.reasons
    return found.changed, found.unchanged, found.incomparable


def test_norms_of_two_dtypes_are_compared_by_value(tmp_path: Path) -> None:
    ones = torch.ones(64)
    little, far = ones.clone(), ones.clone()
    little[3], far[3] = 1.0001, 1.1
    bf16 = torch.bfloat16
    assert norms(ones, ones.to(bf16), tmp_path) == (0, 1, 0)
    assert norms(ones.half(), ones.to(bf16), tmp_path) == (0, 1, 0)
    assert norms(little, ones.to(bf16), tmp_path) == (0, 0, 1)  # the earlier may be its copy
    assert norms(ones.to(bf16), little, tmp_path) == (0, 0, 1)  # what rounding does as well
    assert norms(ones.to(bf16), far, tmp_path) == (1, 0, 0)
    assert norms(far.to(bf16), far.double(), tmp_path) == (0, 0, 1)
    assert norms(far.half(), far, tmp_path) == (0, 0, 1)
    assert norms(torch.full((4,), 7e4).half(), torch.full((4,), 7e4), tmp_path) == (0, 0, 1)


def test_values_are_those_of_torch() -> None:
    codes = numpy.arange(1 << 16, dtype="u2")
    for dtype, kind in (("BF16", torch.bfloat16), ("F16", torch.float16)):
        real = torch.from_numpy(codes.view("i2").copy()).view(kind).double()
        ours = torch.tensor(floats(dtype, codes.tobytes()), dtype=torch.float64)
        assert torch.equal(real.nan_to_num(nan=7.0), ours.nan_to_num(nan=7.0))


def test_rounding_is_that_of_torch(tmp_path: Path) -> None:
    from doctor.checkpoint.analysis.float_decode import agree_when_rounded

    torch.manual_seed(3)
    values = torch.cat(
        [torch.randn(20_000), torch.randn(5000) * 1e-40, torch.tensor([1e38, -3e38])]
    )
    for dtype, kind in (("BF16", torch.bfloat16), ("F16", torch.float16)):
        rounded = values.to(kind).double().tolist()
        assert agree_when_rounded(tuple(rounded), tuple(values.double().tolist()), dtype)


@pytest.mark.parametrize(
    "place", [0, FIRST // 4 - 1, FIRST // 4, (FIRST + NEXT) // 4 - 1, (FIRST + NEXT) // 4, 999_999]
)
def test_one_changed_element_is_movement_wherever_it_is(tmp_path: Path, place: int) -> None:
    then = torch.zeros(1_000_000)
    now = then.clone()
    now[place] = 1e-38
    found = moves(tmp_path, {"w": now}, {"w": then})
    assert (found.changed, found.unchanged) == (1, 0)
    assert found.bytes <= 2 * (4 * place + FIRST + NEXT)


def test_two_zeros_of_different_sign_differ(tmp_path: Path) -> None:
    assert moves(tmp_path, {"w": torch.tensor([0.0])}, {"w": torch.tensor([-0.0])}).changed == 1


def test_files_may_be_divided_anew(tmp_path: Path) -> None:
    now, then = trained(torch.bfloat16)
    for folder, state, count in (("now", now, 100), ("then", then, 3)):
        (tmp_path / folder).mkdir()
        for number in range(count):
            share = {name: state[name].clone() for name in sorted(state)[number::count]}
            save_file(share, tmp_path / folder / f"model-{number}.safetensors")
    found = compared(tmp_path / "now", tmp_path / "then")
    assert isinstance(found, Movement)
    assert (found.changed, found.unchanged) == (8, 4)


def test_no_common_name_is_unknown(tmp_path: Path) -> None:
    found = between(tmp_path, {"a": torch.ones(1)}, {"b": torch.ones(1)})
    assert isinstance(found, Unknown)
    assert str(tmp_path / "then") in found.reason


def test_a_file_that_ends_early_is_told_of_its_tensors(tmp_path: Path) -> None:
    state = {"a": torch.zeros(100_000), "b": torch.zeros(10)}
    between(tmp_path, state, state)
    tensors = stored(tmp_path / "then")
    path = tmp_path / "then" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:300_000])
    now = LocalDirectory(tmp_path / "now")
    found = compare(now, tensors, LocalDirectory(tmp_path / "then"), tensors)
    assert isinstance(found, Movement)
    assert [(one.reason, one.names) for one in found.reasons] == [
        ("a file ended before they did", ("a", "b"))
    ]
    path.unlink()
    found = compare(now, tensors, LocalDirectory(tmp_path / "then"), tensors)
    assert isinstance(found, Movement)
    assert [one.reason for one in found.reasons] == ["is missing"]


def raw(name: str, shape: tuple[int, ...], size: int, **fields: Any) -> Tensor:
    elements = int(numpy.prod(shape))
    return msgspec.structs.replace(Tensor(name, "F32", shape, elements, "raw", 0, size), **fields)


def test_tensors_in_several_parts_are_compared_as_one(tmp_path: Path) -> None:
    data = numpy.random.default_rng(0).normal(size=100_000).astype("f4").tobytes()
    whole = raw("w", (100_000,), 400_000)
    halves = (Part("a", 0, 150_000), Part("b", 0, 250_000))
    files = Elsewhere({"a": data[:150_000], "b": data[150_000:]})
    divided = msgspec.structs.replace(whole, parts=halves)
    here = Elsewhere({"raw": data})
    assert _counts(compare(here, [whole], files, [divided])) == (0, 1, 0)
    assert _counts(compare(files, [divided], here, [whole])) == (0, 1, 0)
    other = Elsewhere({"raw": data[:-1] + bytes([data[-1] ^ 1])})
    assert _counts(compare(files, [divided], other, [whole])) == (1, 0, 0)


def test_views_are_compared_where_both_are_stored_alike() -> None:
    data = numpy.arange(12, dtype="f4").tobytes()
    here, there = Elsewhere({"raw": data}), Elsewhere({"raw": data})
    plain = raw("w", (3, 4), 48)
    turned = raw("w", (3, 4), 48, strides=(1, 3))
    gaps = raw("w", (3, 2), 40, strides=(4, 1))
    same_order = raw("w", (3, 4), 48, strides=(4, 1))
    assert _counts(compare(here, [turned], there, [turned])) == (0, 1, 0)
    assert _counts(compare(here, [same_order], there, [plain])) == (0, 1, 0)
    for tensor, other, reason in (
        (turned, plain, "they are stored in another order"),
        (gaps, gaps, "they are views with gaps in what is stored"),
    ):
        found = compare(here, [tensor], there, [other])
        assert isinstance(found, Movement)
        assert [one.reason for one in found.reasons] == [reason]


def _counts(found: Movement | Unknown) -> tuple[int, int, int]:
    assert isinstance(found, Movement)
    return found.changed, found.unchanged, found.incomparable


def test_progress_counts_the_tensors_that_both_have(tmp_path: Path) -> None:
    state = {str(n): torch.ones(3) for n in range(5)}
    between(tmp_path, state, state)
    calls: list[tuple[int, int]] = []
    folder = LocalDirectory(tmp_path / "now")
    tensors = stored(tmp_path / "now")
    compare(folder, tensors, folder, tensors[:4], lambda *at: calls.append(at))
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]
