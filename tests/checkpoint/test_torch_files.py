"""Every tensor of real torch files: its bytes, dtype, shape and strides, against torch itself."""

from __future__ import annotations

import argparse
import random
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.scalars import read_scalar
from doctor.checkpoint.formats.torch_dtypes import DTYPES, ITEM, STORAGES
from doctor.checkpoint.formats.torch_files import read_torch, read_tree
from doctor.checkpoint.formats.weights_only import ALLOWED
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.pickle.nodes import mapping, members
from doctor.checkpoint.tensors import Shard, Tensor

torch = pytest.importorskip("torch")

FORMS: dict[str, dict[str, Any]] = {
    "protocol 2": {},
    "protocol 3": {"pickle_protocol": 3},
    "protocol 4": {"pickle_protocol": 4},
    "protocol 5": {"pickle_protocol": 5},
    "legacy": {"_use_new_zipfile_serialization": False},
    "legacy, protocol 4": {"_use_new_zipfile_serialization": False, "pickle_protocol": 4},
}
form = pytest.mark.parametrize("how", FORMS.values(), ids=FORMS)


def read(path: Path) -> Shard:
    with LocalDirectory(path.parent).open(path.name) as source:
        return read_torch(source, path.name)


def saved(value: Any, path: Path, how: dict[str, Any] | None = None) -> Shard:
    torch.save(value, path, **(how or {}))
    return read(path)


def raw(tensor: Any) -> bytes:
    """The bytes of a tensor's numbers in C order."""
    flat = tensor.detach().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).tolist()) if flat.numel() else b""


def same(data: bytes, found: Tensor, expected: Any, name: str = "") -> None:
    """The tensor that was read is the one that torch has, bit for bit."""
    dtype = DTYPES[str(expected.dtype)]
    item = ITEM[dtype]
    assert found.dtype == dtype, name
    storage = data[found.begin : found.end]
    if dtype == "F4":
        assert found.shape == (*expected.shape[:-1], expected.shape[-1] * 2)
        assert storage == bytes(expected.view(torch.uint8).reshape(-1).tolist())
        return
    assert found.shape == tuple(expected.shape)
    assert found.elements == expected.numel()
    if found.strides is None:
        assert storage == raw(expected), name
        return
    assert found.strides == tuple(expected.stride())
    assert not expected.is_contiguous()
    picked = bytearray()
    for index in torch.cartesian_prod(*(torch.arange(n) for n in found.shape)).reshape(
        -1, len(found.shape)
    ):
        at = item * sum(int(i) * s for i, s in zip(index, found.strides, strict=True))
        picked += storage[at : at + item]
    assert bytes(picked) == raw(expected), name


def compare(path: Path, shard: Shard, expected: dict[str, Any]) -> None:
    data = path.read_bytes()
    assert not [problem for problem in shard.problems if problem.kind not in ("note", "unloadable")]
    assert shard.readable
    found = {tensor.name: tensor for tensor in shard.tensors}
    assert found.keys() == expected.keys()
    assert len(found) == len(shard.tensors)
    for name, tensor in expected.items():
        same(data, found[name], tensor, name)


def every_kind() -> dict[str, Any]:
    torch.manual_seed(0)
    base = torch.randn(6, 8)
    state = {
        "plain": base,
        "tied": base,
        "rows": base[2:5],
        "columns": base[:, 3:6],
        "transposed": base.t(),
        "expanded": torch.randn(3, 1).expand(3, 4),
        "stepped": base[::2, 1::3],
        "scalar": torch.tensor(3.5),
        "one": torch.ones(1),
        "empty": torch.empty(0),
        "no rows": torch.empty(0, 5),
        "no columns": torch.empty(5, 0),
        "parameter": torch.nn.Parameter(torch.randn(4)),
        "channels_last": torch.randn(2, 3, 2, 2).to(memory_format=torch.channels_last),
        "length one": torch.randn(4, 1, 3)[:, :, :],
    }
    for name in (
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
        "complex64",
        "complex128",
    ):
        state[name] = torch.arange(6).to(getattr(torch, name)).reshape(2, 3)
    for name in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu"):
        dtype = getattr(torch, f"float8_{name}", None)
        if dtype is not None:
            state[name] = torch.arange(1, 7).float().to(dtype).reshape(2, 3)
    return state


@form
def test_every_kind_of_tensor(tmp_path: Path, how: dict[str, Any]) -> None:
    state = every_kind()
    path = tmp_path / "m.pt"
    shard = saved(state, path, how)
    compare(path, shard, state)
    assert shard.refused == ()
    assert list(shard.tensors) == sorted(shard.tensors, key=lambda t: (t.begin, t.end))
    begins = {tensor.name: tensor.begin for tensor in shard.tensors}
    assert begins["tied"] == begins["plain"] == begins["transposed"] == begins["columns"] - 12


def test_pairs_of_four_bits(tmp_path: Path) -> None:
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this torch has no float4")
    state = {"w": torch.arange(8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2).reshape(2, 4)}
    path = tmp_path / "m.pt"
    shard = saved(state, path)
    compare(path, shard, state)
    assert (shard.tensors[0].shape, shard.tensors[0].elements) == ((2, 8), 16)


@pytest.mark.parametrize("name", ["uint16", "float8_e5m2", "complex32", "int16"])
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_dtypes_that_the_legacy_form_cannot_hold(tmp_path: Path, name: str) -> None:
    """torch writes the file, and fails on it."""
    path, dtype = tmp_path / "m.pt", getattr(torch, name)
    old = {"_use_new_zipfile_serialization": False}
    shard = saved({"w": torch.ones(3).to(dtype)}, path, old)
    kinds = [problem.kind for problem in shard.problems]
    try:
        loaded = torch.load(path)
    except AttributeError:
        assert kinds == ["unloadable"]
    else:
        assert (kinds, loaded["w"].dtype) == ([], dtype)


@form
def test_a_module_that_was_pickled_whole(tmp_path: Path, how: dict[str, Any]) -> None:
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 4),
        torch.nn.ModuleDict({"norm": torch.nn.BatchNorm1d(4), "out": torch.nn.Linear(4, 2)}),
    )
    path = tmp_path / "m.pt"
    shard = saved(module, path, how)
    compare(path, shard, module.state_dict())
    assert "torch.nn.modules.container.Sequential" in shard.refused
    inside = saved({"model": module, "epoch": 3}, path, how)
    compare(path, inside, module.state_dict())


def stepped(kind: str, named: bool = False) -> tuple[Any, Any]:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    given = module.named_parameters() if named else module.parameters()
    options = {"momentum": 0.9} if kind == "SGD" else {}
    optimizer = getattr(torch.optim, kind)(given, lr=1e-3, **options)
    for _ in range(3):
        optimizer.zero_grad()
        module(torch.randn(2, 3)).square().sum().backward()
        optimizer.step()
    return module, optimizer


@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
@form
def test_an_optimizer(tmp_path: Path, kind: str, how: dict[str, Any]) -> None:
    _, optimizer = stepped(kind, named=True)
    state = optimizer.state_dict()
    path = tmp_path / "optimizer.pt"
    shard = saved(state, path, how)
    assert shard.tensors == ()
    assert shard.optimizer is not None
    data = path.read_bytes()
    with LocalDirectory(tmp_path).open("optimizer.pt") as source:
        tree = read_tree(source, "optimizer.pt")
        (found,) = tree.optimizers()
        groups = members(mapping(found)["param_groups"])
        assert mapping(groups[0])["lr"] == 1e-3
        assert members(mapping(groups[0])["params"]) == [0, 1, 2, 3]
        assert members(mapping(groups[0])["param_names"])[3] == "1.bias"
        for key, entry in state["state"].items():
            nodes = mapping(mapping(mapping(found)["state"])[key])
            assert nodes.keys() == entry.keys()
            for slot, value in entry.items():
                tensor = tree.tensor(nodes[slot], slot)
                assert tensor is not None
                same(data, tensor, value)
                if slot == "step":
                    assert read_scalar(source, tensor) == 3.0


@form
def test_nanogpt(tmp_path: Path, how: dict[str, Any]) -> None:
    module, optimizer = stepped("AdamW")
    path = tmp_path / "ckpt.pt"
    checkpoint = {
        "model": module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "model_args": {"n_layer": 2, "bias": False},
        "iter_num": 250,
        "best_val_loss": torch.tensor(1.5),
        "config": {"dtype": "bfloat16"},
    }
    shard = saved(checkpoint, path, how)
    compare(path, shard, module.state_dict())
    assert shard.step == 250
    assert shard.optimizer is not None


def test_lightning(tmp_path: Path) -> None:
    module, optimizer = stepped("AdamW")
    path = tmp_path / "last.ckpt"
    checkpoint = {
        "epoch": 1,
        "global_step": 40,
        "pytorch-lightning_version": "2.5.0",
        "state_dict": module.state_dict(),
        "loops": {"fit_loop": {"state_dict": {}, "progress": {"total": 3}}},
        "callbacks": {"ModelCheckpoint{'monitor': None}": {"best": torch.tensor(0.5)}},
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [],
        "hparams_name": "kwargs",
        "hyper_parameters": argparse.Namespace(lr=1e-3),
    }
    shard = saved(checkpoint, path)
    compare(path, shard, module.state_dict())
    assert (shard.step, shard.refused) == (40, ("argparse.Namespace",))
    assert shard.optimizer is not None


def test_the_rest_of_a_checkpoint_is_no_weight(tmp_path: Path) -> None:
    module, optimizer = stepped("AdamW")
    net = module.state_dict()
    checkpoint = {
        "encoder": net,
        "decoder": net,
        "optim_encoder": optimizer.state_dict(),
        "rng_state": torch.get_rng_state(),
    }
    shard = saved(checkpoint, tmp_path / "m.pt")
    assert {tensor.name.partition(".")[0] for tensor in shard.tensors} == {"encoder"}
    copied = saved({**checkpoint, "decoder": dict(net)}, tmp_path / "m.pt")
    assert {tensor.name.partition(".")[0] for tensor in copied.tensors} == {"encoder", "decoder"}


def test_random_states_and_schedules(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    path = tmp_path / "rng_state.pth"
    states = {
        "python": random.getstate(),
        "numpy": numpy.random.get_state(),
        "cpu": torch.get_rng_state(),
        "bytes": b"\x00\xff" * 300,
        "large": 1 << 200,
        "set": {1, 2},
        "frozen": frozenset({3}),
        "defaultdict": __import__("collections").defaultdict(dict, {1: {}}),
    }
    for how in FORMS.values():
        shard = saved(states, path, how)
        assert shard.readable
        with LocalDirectory(tmp_path).open(path.name) as source:
            tree = read_tree(source, path.name)
        top = mapping(tree.value)
        assert top["python"] == random.getstate()
        assert (top["bytes"], top["large"]) == (b"\x00\xff" * 300, 1 << 200)
        assert sorted(members(top["set"])) == [1, 2]
        assert members(top["frozen"]) == [3]
        assert mapping(top["defaultdict"]) == {1: {}}


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_sparse_nested_and_quantised_tensors_are_noted(tmp_path: Path) -> None:
    dense = torch.eye(3)
    state = {
        "coo": dense.to_sparse(),
        "csr": dense.to_sparse_csr(),
        "meta": torch.empty(3, device="meta"),
        "plain": dense,
    }
    path = tmp_path / "m.pt"
    shard = saved(state, path)
    names = {tensor.name for tensor in shard.tensors}
    rows = {"csr.compressed_indices", "csr.plain_indices", "csr.values"}
    assert names == {"plain", "coo.indices", "coo.values", *rows}
    assert sorted(problem.text for problem in shard.problems) == [
        "holds 1 tensors of the meta device, without values",
        "holds 2 sparse tensors",
    ]
    assert shard.readable


@pytest.mark.filterwarnings("ignore")
def test_what_is_in_nested_and_quantised_tensors(tmp_path: Path) -> None:
    rows = [torch.ones(2), torch.ones(3)]
    scales, zeros = torch.ones(3), torch.zeros(3)
    state = {
        "nested": torch.nested.nested_tensor(rows),
        "quantised": torch.quantize_per_channel(torch.randn(3, 4), scales, zeros, 0, torch.qint8),
    }
    shard = saved(state, tmp_path / "m.pt")
    names = {tensor.name for tensor in shard.tensors}
    assert {"nested.values", "nested.sizes", "quantised.4.1", "quantised.4.2"} <= names
    assert {problem.text for problem in shard.problems} == {
        "holds 1 nested tensors",
        "holds 1 quantised tensors",
    }
    assert shard.refused == ()


def test_a_distributed_tensor(tmp_path: Path) -> None:
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("this torch has no distributed package")
    from torch.distributed.tensor import DTensor, Replicate, init_device_mesh
    from torch.distributed.tensor import Shard as Sharded

    store = f"file://{tmp_path}/store"
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        local = torch.randn(2, 3)
        whole = DTensor.from_local(local, mesh, [Replicate()])
        part = DTensor.from_local(local, mesh, [Sharded(0)], shape=(4, 3), stride=(3, 1))
        state = {"whole": whole, "part": part, "parameter": torch.nn.Parameter(whole)}
        torch.save(state, tmp_path / "m.pt")
    finally:
        distributed.destroy_process_group()
    shard = read(tmp_path / "m.pt")
    compare(tmp_path / "m.pt", shard, dict.fromkeys(state, local))
    text = "holds 1 shards of distributed tensors, with the shards' shapes"
    assert [problem.text for problem in shard.problems] == [text]
    assert "torch.distributed.tensor.DTensor" in shard.refused


def test_tensors_with_attributes(tmp_path: Path) -> None:
    tensor, parameter = torch.randn(3), torch.nn.Parameter(torch.randn(2))
    tensor.tag, parameter.tag = "a", "b"
    state = OrderedDict(tensor=tensor, parameter=parameter)
    path = tmp_path / "m.pt"
    compare(path, saved(state, path), state)


@pytest.mark.slow
def test_a_training_file_of_many_objects(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path), report_to=[])
    shard = saved(arguments, tmp_path / "training_args.bin")
    assert shard.readable
    assert shard.tensors == ()
    assert "transformers.training_args.TrainingArguments" in shard.refused


def test_what_torch_allows() -> None:
    unpickler = pytest.importorskip("torch._weights_only_unpickler")
    if not torch.__version__.startswith("2.13."):
        pytest.skip("the list is that of torch 2.13")
    assert unpickler._get_allowed_globals().keys() == ALLOWED


def test_every_storage_class_is_known() -> None:
    names = {f"{kind.__module__}.{kind.__name__}" for kind in torch._storage_classes}
    names -= {"torch.storage.TypedStorage"}
    assert names <= STORAGES.keys()
    for dtype, name in DTYPES.items():
        known = getattr(torch, dtype.removeprefix("torch."), None)
        assert known is None or known.itemsize == ITEM[name], dtype


@pytest.mark.slow
def test_a_large_storage_key_in_a_zip_of_64_bits(tmp_path: Path) -> None:
    """More than 65,535 records before the tensor's: the directory counts them with 64 bits.

    They are written as torch.save does, without the tensors that it would take seconds to pickle.
    """
    path = tmp_path / "m.pt"
    torch.save({"weight": torch.ones(1)}, path)
    reader = torch._C.PyTorchFileReader(str(path))
    records = {name: reader.get_record(name) for name in ("data.pkl", "byteorder", "data/0")}
    writer = torch._C.PyTorchFileWriter(str(path))
    for number in range(1, 66_000):
        writer.write_record(f"data/{number}", bytes(4), 4)
    for name, data in records.items():
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    with zipfile.ZipFile(path) as archive:
        assert len(archive.infolist()) > 65_535
    assert torch.load(path)["weight"] == 1
    (found,) = read(path).tensors
    assert path.read_bytes()[found.begin : found.end] == b"\0\0\x80\x3f"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_other_zips_are_not_inspectable(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", b"numbers")
    shard = read(path)
    assert not shard.readable
    assert shard.problems[0].text == "is a zip archive that torch.save did not write"
    traced = torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
    torch.jit.save(traced, str(path))
    assert read(path).problems[0].text == "is a TorchScript program, not a checkpoint"


def test_a_file_that_is_no_torch_file(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    cases = {
        b"": ("damaged", "is empty"),
        b"version https://git-lfs.github.com/spec/v1\nsize 12\n": ("disguised", "is a git-LFS"),
        b"<!DOCTYPE html>": ("disguised", "is a web page"),
        b"hello": ("damaged", "is not a file of torch.save"),
        b"\x80\x02K\x01.": ("not-inspectable", "is a pickle that torch.save did not write"),
    }
    for data, (kind, text) in cases.items():
        path.write_bytes(data)
        (problem,) = read(path).problems
        assert problem.kind == kind
        assert problem.text.startswith(text)


def test_the_tar_form_is_refused(tmp_path: Path) -> None:
    import io
    import tarfile

    path = tmp_path / "old.pt"
    with tarfile.open(path, "w") as archive:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            info = tarfile.TarInfo(name)
            info.size = 4
            archive.addfile(info, io.BytesIO(b"data"))
    (problem,) = read(path).problems
    assert problem.kind == "not-inspectable"
    assert "tar archive" in problem.text


def test_reading_a_tree_raises_wrong(tmp_path: Path) -> None:
    (tmp_path / "m.bin").write_bytes(b"hello")
    with LocalDirectory(tmp_path).open("m.bin") as source, pytest.raises(CheckpointError):
        read_tree(source, "m.bin")
