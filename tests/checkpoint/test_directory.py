"""Folders as save_pretrained, PEFT, the Hub's cache and broken downloads leave them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor._util.records import Unknown
from doctor.checkpoint.layouts.model_config import read_config
from doctor.checkpoint.records import Checkpoint
from doctor.checkpoint.scan import scan

INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Llama of transformers, saved whole and in shards."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("saved")
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=128,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LlamaForCausalLM(config).to(torch.bfloat16)
        model.save_pretrained(folder / "whole")
        model.save_pretrained(folder / "shards", max_shard_size="20KB")
    return folder


@pytest.fixture
def shards(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved / "shards", tmp_path / "shards"))


def looked(path: Path | str) -> Checkpoint:
    found = scan(str(path))
    assert isinstance(found, Checkpoint), found
    return found


def kinds(found: Checkpoint) -> list[str]:
    return [problem.kind for problem in found.problems]


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def weight_map(folder: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((folder / INDEX).read_text())["weight_map"]
    return found


def index(folder: Path, names: dict[str, Any]) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": names}))


@pytest.mark.slow
def test_shards_and_the_whole_file_tell_the_same(saved: Path) -> None:
    whole, split = looked(saved / "whole"), looked(saved / "shards")
    assert whole.problems == split.problems == ()
    assert (whole.layout, split.layout) == ("one safetensors file", "safetensors shards")
    assert split.files.count == len(files(saved / "shards")) > 3
    assert whole.contents.tensors == split.contents.tensors == 30
    assert whole.contents.parameters == split.contents.parameters
    assert whole.contents.dtypes == split.contents.dtypes == {"BF16": 2 * whole.contents.parameters}
    assert sorted(whole.contents.norms, key=str) == sorted(split.contents.norms, key=str)
    assert {norm.value for norm in whole.contents.norms} == {"ones"}
    assert len(whole.contents.norms) == 7
    assert (whole.model.model_type, whole.model.dtype) == ("llama", "bfloat16")
    assert (whole.model.quantized, whole.training.history) == (False, None)
    names = {role.name: role.dtypes for role in whole.contents.roles}
    assert names["model.layers.*.mlp.up_proj.weight"] == {"BF16": 3}


def test_an_index_can_be_named(saved: Path) -> None:
    assert looked(saved / "shards" / INDEX).contents.tensors == 30


def test_one_shard_can_be_named(saved: Path) -> None:
    found = looked(files(saved / "shards")[0])
    assert kinds(found) == ["note"]
    assert "is one of" in found.problems[0].text


def test_links_as_in_the_hubs_cache(saved: Path, tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted((saved / "shards").iterdir())):
        shutil.copy(file, blobs / f"{number:064x}")
        (snapshot / file.name).symlink_to(Path("..", "..", "blobs", f"{number:064x}"))
    assert looked(snapshot).problems == ()
    broken = next(snapshot.glob("model-00002*"))
    broken.resolve().unlink()
    problem = looked(snapshot).problems[0]
    assert problem.kind == "missing"
    assert "links to files that are not there" in problem.text
    found = scan(str(tmp_path))
    assert isinstance(found, Unknown)
    assert "snapshots" in found.reason


def test_a_blob_of_the_cache_can_be_named(saved: Path, tmp_path: Path) -> None:
    shutil.copy(saved / "whole" / "model.safetensors", tmp_path / "0abc")
    assert looked(tmp_path / "0abc").contents.tensors == 30


def test_missing_shards_are_named(shards: Path) -> None:
    gone = files(shards)[1]
    gone.unlink()
    found = looked(shards)
    assert kinds(found) == ["missing"]
    assert gone.name in found.problems[0].text
    assert found.files.count == len(files(shards))


def test_shards_without_an_index(shards: Path) -> None:
    (shards / INDEX).unlink()
    assert kinds(looked(shards)) == ["no-index"]
    files(shards)[2].unlink()
    assert kinds(looked(shards)) == ["no-index", "missing"]


def test_a_stale_index_is_no_partial_download(shards: Path) -> None:
    index(shards, dict.fromkeys(weight_map(shards), "model-00001-of-00002.safetensors"))
    found = looked(shards)
    assert kinds(found) == ["foreign-index"]
    assert found.contents.tensors == 30
    files(shards)[0].unlink()
    assert "missing" in kinds(looked(shards))


def test_a_stale_index_beside_the_whole_file(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved / "whole", tmp_path / "whole"))
    shutil.copy(saved / "shards" / INDEX, folder)
    found = looked(folder)
    assert kinds(found) == ["stale-index"]
    assert found.contents.tensors == 30


def test_tensors_that_index_and_shards_do_not_share(shards: Path) -> None:
    names = weight_map(shards)
    first, second = sorted(set(names.values()))[:2]
    index(shards, {**names, "mtp.fc.weight": first})
    problem = looked(shards).problems[0]
    assert problem.kind == "missing"
    assert "mtp.fc.weight" in problem.text

    index(shards, {name: file for name, file in names.items() if name != "model.norm.weight"})
    problem = looked(shards).problems[0]
    assert problem.kind == "stale-index"
    assert "model.norm.weight" in problem.text

    moved = next(name for name, file in names.items() if file == first)
    index(shards, {**names, moved: second})
    problem = looked(shards).problems[0]
    assert problem.kind == "stale-index"
    assert "another shard" in problem.text


def test_a_tensor_in_two_shards(shards: Path) -> None:
    first, second = files(shards)[:2]
    shutil.copy(first, second)
    assert "twice" in kinds(looked(shards))


def test_parts_of_a_tensor_in_two_shards_are_legitimate(tmp_path: Path) -> None:
    """torch's distributed export keeps a tensor's parts under its full name."""
    import torch
    from safetensors.torch import save_file

    for number in (1, 2):
        name = f"model-0000{number}-of-00002.safetensors"
        save_file({"w": torch.ones(2)}, str(tmp_path / name), {"DCP_SHARDING_INFO": "{}"})
    assert kinds(looked(tmp_path)) == ["no-index"]


def test_stray_files_beside_shards(saved: Path, shards: Path) -> None:
    shutil.copy(saved / "whole" / "model.safetensors", shards)
    found = looked(shards)
    assert kinds(found) == ["stray"]
    assert "transformers loads it instead" in found.problems[0].text
    assert found.files.count == len(files(shards)) - 1
    (shards / "model.safetensors").unlink()
    shutil.copy(files(shards)[0], shards / "model-00040-of-00040.safetensors")
    found = looked(shards)
    assert kinds(found) == ["stray"]
    assert "model-00040-of-00040" in found.problems[0].text


def test_shards_beside_a_whole_file_without_an_index(shards: Path, saved: Path) -> None:
    (shards / INDEX).unlink()
    shutil.copy(saved / "whole" / "model.safetensors", shards)
    found = looked(shards)
    assert kinds(found) == ["stray"]
    assert found.files.count == 1


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "a/../../x", "", "a\0b"])
def test_an_index_does_not_lead_out_of_the_folder(shards: Path, name: str) -> None:
    outside = shards.parent / "secret.safetensors"
    shutil.copy(files(shards)[0], outside)
    index(shards, {**weight_map(shards), "w": name})
    found = looked(shards)
    assert kinds(found)[0] == "damaged"
    assert "not a file of this directory" in found.problems[0].text
    assert found.files.count == len(files(shards))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[]", "damaged"),
        ("{}", "damaged"),
        ('{"weight_map": {"a": 3}}', "damaged"),
        ('{"weight_map": []}', "damaged"),
        ("{", "damaged"),
        ("", "damaged"),
        ("[" * 200_000, "damaged"),
        ("version https://git-lfs.github.com/spec/v1\nsize 23\n", "disguised"),
    ],
)
def test_an_index_that_is_none(shards: Path, text: str, kind: str) -> None:
    (shards / INDEX).write_text(text)
    found = looked(shards)
    assert kinds(found) == [kind]
    assert found.contents.tensors == 30


def test_what_is_no_file_is_never_waited_for(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.perf_counter()
    pipe, folder, device = files(shards)[:3]
    for path in (pipe, folder, device):
        path.unlink()
    os.mkfifo(pipe)
    folder.mkdir()
    device.symlink_to("/dev/zero")
    found = looked(shards)
    assert [problem.text for problem in found.problems] == [
        "is a named pipe, not a file",
        "is a directory, not a file",
        "is a device, not a file",
    ]
    os.mkfifo(tmp_path / "lone.safetensors")
    assert kinds(looked(tmp_path / "lone.safetensors")) == ["damaged"]
    monkeypatch.chdir(tmp_path)  # an address has at most 107 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.safetensors")
        assert looked(tmp_path / "s.safetensors").problems[0].text.startswith("is a socket")
    for name in ("config.json", "trainer_state.json"):
        (shards / name).unlink(missing_ok=True)
        os.mkfifo(shards / name)
    assert [kind for kind in kinds(looked(shards)) if kind == "note"] == ["note", "note"]
    assert time.perf_counter() - began < 60


def test_a_peft_adapter(tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, vocab_size=32,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lora = LoraConfig(target_modules=["q_proj"], r=2)
        get_peft_model(LlamaForCausalLM(config), lora).save_pretrained(tmp_path)
    found = looked(tmp_path)
    assert found.layout == "PEFT adapter"
    assert found.problems == ()
    assert found.contents.tensors == 2
    assert found.contents.norms == ()


def test_several_files_of_other_names(saved: Path, tmp_path: Path) -> None:
    for name in ("diffusion.fp16.safetensors", "diffusion.safetensors"):
        shutil.copy(saved / "whole" / "model.safetensors", tmp_path / name)
    found = looked(tmp_path)
    assert kinds(found) == ["note"]
    assert found.problems[0].file == "diffusion.safetensors"
    assert found.contents.tensors == 30


@pytest.mark.parametrize(
    ("steps", "read"),
    [
        ({"last.ckpt": 19_000, "last-v1.ckpt": 1_900}, "last.ckpt"),
        ({"last.ckpt": 1_900, "last-v1.ckpt": 19_000}, "last-v1.ckpt"),
        ({"last.ckpt": 5, "last-v1.ckpt": 3, "epoch=9.ckpt": 100}, "last.ckpt"),
        ({"epoch=9-step=100.ckpt": 100, "epoch=10-step=110.ckpt": 110}, "epoch=10-step=110.ckpt"),
        ({"last.ckpt": 7, "last-v1.ckpt": 7}, "last-v1.ckpt"),
        ({"last.ckpt": 7, "last-v1.ckpt": None}, "last-v1.ckpt"),
    ],
)
def test_of_one_name_the_file_of_the_most_steps_is_read(
    steps: dict[str, int | None], read: str, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    for name, step in steps.items():
        counter = {} if step is None else {"global_step": step}
        torch.save({"state_dict": {"w": torch.ones(3)}, **counter}, tmp_path / name)
    found = looked(tmp_path)
    assert [problem.file for problem in found.problems] == [read]
    assert f"one of {len(steps)} files that was read" in found.problems[0].text


@pytest.mark.parametrize(
    ("names", "layout", "kind"),
    [
        (["pytorch_model.bin"], "one pytorch_model.bin", "not-inspectable"),
        (["ckpt.pt"], "one PyTorch file", "not-inspectable"),
        (["__0_0.distcp", ".metadata"], "torch.distributed.checkpoint", "damaged"),
        (["__0_0.distcp"], "torch.distributed.checkpoint", "missing"),
        (["latest", "global_step5", "zero_to_fp32.py"], "DeepSpeed checkpoint", "missing"),
        (["latest_checkpointed_iteration.txt", "iter_1"], "Megatron-LM checkpoint", "missing"),
        (["model-Q4_K_M.gguf"], "one GGUF file", "not-inspectable"),
        (["epoch=1.ckpt"], "one .ckpt file", "not-inspectable"),
        (["model.nemo"], "a NeMo archive", "not-inspectable"),
        (["model.h5"], "HDF5 weights", "not-inspectable"),
        (["manifest.ocdbt", "_METADATA"], "an Orbax checkpoint", "not-inspectable"),
        (["zarr.json", "c"], "zarr arrays", "not-inspectable"),
        (["saved_model.pb"], "a TensorFlow SavedModel", "not-inspectable"),
    ],
)
def test_names_alone_are_no_weights(
    tmp_path: Path, names: list[str], layout: str, kind: str
) -> None:
    for name in names:
        (tmp_path / name).write_bytes(bytes(100))
    found = looked(tmp_path)
    assert (found.layout, kinds(found)) == (layout, [kind])
    assert (found.contents.tensors, found.contents.norms) == (0, ())


def test_what_is_not_read_is_known_by_size(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(700))
    (tmp_path / "optimizer.pt").write_bytes(bytes(9000))
    found = looked(tmp_path)
    assert found.files.bytes == 700
    assert kinds(found) == ["disguised", "disguised"]
    assert found.files.others == ("optimizer.pt",)
    assert looked(tmp_path / "pytorch_model.bin").files.largest == 700


def test_a_file_that_never_called_itself_safetensors(saved: Path) -> None:
    found = looked(saved / "whole" / "config.json")
    assert found.not_inspectable


def test_a_trainers_folder_is_its_model(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved / "whole", tmp_path / "checkpoint-7"))
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"):
        (folder / name).write_bytes(b"PK\x03\x04")
    whole = looked(folder)
    assert [problem.file for problem in whole.problems] == ["optimizer.pt"]
    assert "cut short" in whole.problems[0].text
    assert whole.files.others == (
        "optimizer.pt",
        "rng_state.pth",
        "scheduler.pt",
        "training_args.bin",
    )
    assert (whole.files.count, whole.contents.tensors) == (1, 30)
    found = scan(str(tmp_path))
    assert isinstance(found, Unknown)
    assert "checkpoint-7" in found.reason


def test_nothing_there(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path, Path("a\0b"), Path("x" * 5000)):
        found = scan(str(path))
        assert isinstance(found, Unknown), path
        assert found.reason.isprintable()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(shards: Path) -> None:
    files(shards)[0].chmod(0)
    assert looked(shards).not_inspectable


@pytest.mark.parametrize(
    ("config", "dtype", "model_type", "quantized"),
    [
        ({"model_type": "llama", "torch_dtype": "float16"}, "float16", "llama", False),
        ({"dtype": "torch.bfloat16"}, "bfloat16", None, False),
        ({"dtype": "auto"}, None, None, False),
        (
            {"model_type": "gemma3", "text_config": {"dtype": "bfloat16"}},
            "bfloat16",
            "gemma3",
            False,
        ),
        ({"dtype": {"text_config": "float32", "vision_config": "x"}}, "float32", None, False),
        ({"dtype": {"": "float32"}}, "float32", None, False),
        ({"dtype": 3, "model_type": ["x"], "text_config": 7}, None, None, False),
        ({"quantization_config": {"quant_method": "gptq"}}, None, None, True),
        ({"quantization_config": None}, None, None, False),
        ({"text_config": {"quantization_config": {}}}, None, None, True),
    ],
)
def test_config(
    config: dict[str, Any], dtype: str | None, model_type: str | None, quantized: bool
) -> None:
    found = read_config(config)
    assert (found.dtype, found.model_type, found.quantized) == (
        dtype,
        model_type,
        quantized,
    )


def test_a_broken_config_is_a_note(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved / "whole", tmp_path / "whole"))
    (folder / "config.json").write_text("<html>")
    (folder / "trainer_state.json").write_text('{"global_step": 1' + "[" * 100_000)
    found = looked(folder)
    assert kinds(found) == ["note", "note"]
    assert found.contents.tensors == 30


def test_scales_of_quantised_weights_tell(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    tensors = {
        "q.weight": torch.zeros(4, 4).to(torch.float8_e4m3fn),
        "q.weight_scale": torch.ones(1),
    }
    save_file(tensors, str(tmp_path / "model.safetensors"))
    assert looked(tmp_path).model.quantized
    assert looked(tmp_path).contents.norms == ()


def test_names_that_are_no_text(saved: Path, tmp_path: Path) -> None:
    """A path of any bytes goes through JSON."""
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")
    shutil.copytree(saved / "whole", folder)
    msgspec.json.encode(looked(folder))
    for file in ("a\x1b[31m.safetensors", os.fsdecode(b"\xff.safetensors")):
        (tmp_path / file).write_bytes(b"nothing like it")
        found = looked(tmp_path / file)
        assert found.problems[0].message.isprintable()
        msgspec.json.encode(found)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=examples(150))
@given(content=anything, maps=st.dictionaries(st.text(max_size=8), anything, max_size=3))
def test_any_json_beside_the_weights(tmp_path: Path, content: Any, maps: Any) -> None:
    folder = tmp_path / "fuzzed"
    folder.mkdir(exist_ok=True)
    (folder / "model-00001-of-00001.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    for name in ("config.json", "trainer_state.json", INDEX):
        (folder / name).write_text(json.dumps(content))
    scan(str(folder))
    (folder / INDEX).write_text(json.dumps({"weight_map": maps}))
    msgspec.json.encode(scan(str(folder)))
