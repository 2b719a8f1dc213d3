"""Everything that a loader would unpickle is listed with what it imports, whole or broken."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hostile_pickles import mutants
from judges import judge

from doctor._util.records import Unknown
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.formats.dangerous_globals import is_dangerous
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint
from doctor.checkpoint.scan import scan
from doctor.cli.options import ConfigFlags
from doctor.cli.scan import facts_of
from doctor.cli.scan import judge as judge_scan
from doctor.judge.check import Status, Verdict

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")

CODE, COMPLETE = judge("CKP010"), judge("CKP001")

EVIL = b"cposix\ngetpid\n)R0"
"""Calls something and drops what it gives; goes before any pickle."""

OTHER = b"cmylib\nThing\n0"
"""Imports something that no list knows."""


class Payload:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.getpid, ()


def scanned(path: Path) -> Checkpoint:
    checkpoint = scan(str(path))
    assert isinstance(checkpoint, Checkpoint)
    return checkpoint


def code(path: Path) -> Verdict:
    return CODE(checkpoint=scanned(path))


def legacy(position: int, payload: bytes, magic: int = 0x1950A86A20F9469CFC6C) -> bytes:
    """A file of the old form with a payload in one of its five pickles."""
    values = [magic, 1001, {"little_endian": True}, {}, []]
    parts = [pickle.dumps(value, 2) for value in values]
    parts[position] = parts[position][:2] + payload + parts[position][2:]
    return b"".join(parts)


def zipped(path: Path, records: list[tuple[str, bytes]], packing: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, data in records:
            archive.writestr(name, data)
    return path


def model(folder: Path) -> Path:
    from safetensors.torch import save_file

    folder.mkdir(exist_ok=True)
    save_file({"layer.weight": torch.ones(2, 2) / 3}, str(folder / "model.safetensors"))
    return folder


@pytest.mark.parametrize("position", range(5))
def test_each_pickle_of_the_old_form(tmp_path: Path, position: int) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(legacy(position, EVIL))
    assert "posix.getpid" in scanned(path).loading.imports
    assert code(path).status is Status.FAIL
    path.write_bytes(legacy(position, OTHER))
    assert code(path).status is Status.WARN
    path.write_bytes(legacy(position, b""))
    assert code(path).status is Status.PASS


def test_a_first_pickle_that_is_not_the_magic_number(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(legacy(0, EVIL, magic=7))
    assert code(path).status is Status.FAIL


def test_objects_of_a_distributed_checkpoint(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    whole, evil = tmp_path / "whole", tmp_path / "evil"
    state = {"w": torch.ones(4), "step": 3, "scheduler": {"lr": [0.1]}}
    dcp.save(state, checkpoint_id=str(whole))
    verdict = code(whole)
    assert verdict.status is Status.PASS
    assert not scanned(whole).loading.executed
    dcp.save({**state, "extra": Payload()}, checkpoint_id=str(evil))
    assert code(evil).status is Status.FAIL
    metadata = (whole / ".metadata").read_bytes()
    (whole / ".metadata").write_bytes(metadata[:2] + OTHER + metadata[2:])
    assert scanned(whole).loading.executed == ("mylib.Thing",)
    assert code(whole).status is Status.WARN
    (whole / ".metadata").write_bytes(metadata[:2] + EVIL + metadata[2:-9])
    assert code(whole).status is Status.FAIL
    (whole / ".metadata").write_bytes(metadata[:-9])
    assert code(whole).status is Status.UNKNOWN


@pytest.mark.parametrize(
    "name",
    [
        "pathlib._local.PosixPath",
        "torch.distributed._shard.sharded_tensor.metadata.TensorProperties",
        "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
    ],
)
def test_what_other_versions_put_into_metadata(tmp_path: Path, name: str) -> None:
    """Python 3.13 and torch 2.1."""
    import torch.distributed.checkpoint as dcp

    dcp.save({"w": torch.ones(4)}, checkpoint_id=str(tmp_path / "c"))
    metadata = tmp_path / "c/.metadata"
    data = metadata.read_bytes()
    module, _, last = name.rpartition(".")
    metadata.write_bytes(data[:2] + f"c{module}\n{last}\n0".encode() + data[2:])
    assert code(tmp_path / "c").status is Status.PASS


@pytest.mark.parametrize(
    ("holder", "member", "status"),
    [
        ("_MEM_FORMAT_ENCODING", "TORCH_CONTIGUOUS_FORMAT", Status.PASS),
        ("TensorProperties", "__init__", Status.WARN),
        ("os", "system", Status.FAIL),
    ],
)
def test_members_of_enumerations_as_python_before_3_11_4_writes_them(
    tmp_path: Path, holder: str, member: str, status: Status
) -> None:
    import torch.distributed.checkpoint as dcp

    dcp.save({"w": torch.ones(4)}, checkpoint_id=str(tmp_path / "c"))
    metadata = tmp_path / "c/.metadata"
    data = metadata.read_bytes()
    where = f"ctorch.distributed.checkpoint.metadata\n{holder}\nV{member}\n"
    metadata.write_bytes(data[:2] + f"cbuiltins\ngetattr\n({where}tR0".encode() + data[2:])
    assert code(tmp_path / "c").status is status


def test_a_pickle_that_breaks_behind_its_payload(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    for payload, status in ((EVIL, Status.FAIL), (OTHER, Status.WARN), (b"", Status.UNKNOWN)):
        zipped(path, [("m/data.pkl", b"\x80\x02" + payload + b"\xff}.")])
        assert code(path).status is status
        assert COMPLETE(checkpoint=scanned(path)).status is Status.FAIL
        folder = model(tmp_path / f"with {status}")
        shutil.copy(path, folder / "optimizer.pt")
        assert code(folder).status is status


def test_records_of_one_name_both_count(tmp_path: Path) -> None:
    path, plain = tmp_path / "m.pt", b"\x80\x02}."
    for first, second in ((EVIL, b""), (b"", EVIL)):
        data = [("m/data.pkl", plain[:2] + each + plain[2:]) for each in (first, second)]
        assert code(zipped(path, data)).status is Status.FAIL
    assert (
        code(zipped(path, [("m/data.pkl", plain[:2] + EVIL + plain[2:])], 8)).status is Status.FAIL
    )
    cut = path.read_bytes()[:-30]
    path.write_bytes(cut)
    assert code(path).status in (Status.FAIL, Status.UNKNOWN)
    zipped(path, [("m/data.pkl", plain[:2] + EVIL + plain[2:])])
    path.write_bytes(path.read_bytes()[:-30])  # no directory, as of a file that was cut short
    assert code(path).status is Status.FAIL


@pytest.mark.parametrize(
    "name",
    [
        "training_args.bin",
        "scheduler.pt",
        "rng_state_0.pth",
        "random_states_0.pkl",
        "optimizer.pt",
        "pytorch_model.bin",
        "tokenizer.pickle",
        "scaler.joblib",
    ],
)
def test_pickles_beside_good_safetensors(tmp_path: Path, name: str) -> None:
    folder = model(tmp_path / "m")
    assert code(folder).status is Status.PASS
    (folder / name).write_bytes(b"\x80\x02" + EVIL + b"}.")
    assert code(folder).status is Status.FAIL
    (folder / name).write_bytes(b"\x80\x02" + OTHER + b"}.")
    loading = scanned(folder).loading
    assert "mylib.Thing" in (*loading.imports, *(n for x in loading.beside.values() for n in x))
    (folder / name).write_bytes(b"\x80\x02}X")
    assert code(folder).status is Status.UNKNOWN


def test_stale_weights_are_judged_as_weights(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    zipped(folder / "pytorch_model.bin", [("m/data.pkl", b"\x80\x02" + OTHER + b"}.")])
    assert code(folder).status is Status.WARN


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pkl"])
@pytest.mark.parametrize("head", [b"", b"\x80\x02", b"\x80\x04"])
def test_raw_pickles(tmp_path: Path, name: str, head: bytes) -> None:
    """Protocols 0 and 1 have no first byte of their own."""
    path = tmp_path / name
    path.write_bytes(head + EVIL + b"}.")
    assert scanned(path).loading.imports == ("posix.getpid",)
    assert code(path).status is Status.FAIL
    assert COMPLETE(checkpoint=scanned(path)).status is Status.UNKNOWN
    path.write_bytes(head + b"}.")
    assert code(path).status is Status.UNKNOWN


def test_what_is_no_pickle_raises_no_alarm(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    (folder / "openvino_model.bin").write_bytes(torch.randn(64).numpy().tobytes())
    (folder / "vocab.bin").write_bytes(b"hello world\n" * 9)
    loading = scanned(folder).loading
    assert (loading.beside, loading.unread, loading.dangerous) == ({}, (), ())
    assert code(folder).status is Status.PASS


def test_a_file_inside_a_pickle(tmp_path: Path) -> None:
    """Plain pickle keeps a tensor as the bytes of a file of torch.save, and loads those in turn."""
    path = tmp_path / "m.pkl"
    path.write_bytes(pickle.dumps({"w": torch.ones(2)}))
    assert not scanned(path).loading.dangerous
    inner = zipped(tmp_path / "inner.pt", [("m/data.pkl", b"\x80\x02" + EVIL + b"}.")]).read_bytes()
    outer = b"\x80\x04ctorch.storage\n_load_from_bytes\nB"
    path.write_bytes(outer + len(inner).to_bytes(4, "little") + inner + b"\x85R.")
    assert scanned(path).loading.dangerous == ("posix.getpid",)


def test_a_line_that_crosses_the_end_of_a_frame(tmp_path: Path) -> None:
    """CPython drops the rest of the frame when it reads from a stream, and keeps it otherwise."""
    data = b"\x80\x04\x95" + (2).to_bytes(8, "little") + b"cxposix\ngetpid\n)R."
    path = tmp_path / "m.pkl"
    path.write_bytes(data)
    assert pickle.load(io.BytesIO(data)) == os.getpid()
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(data)
    assert {"posix.getpid", "xposix.getpid"} <= set(scanned(path).loading.imports)


def test_a_length_that_crosses_the_end_of_a_frame(tmp_path: Path) -> None:
    """A stream's unpickler drops the first byte of the length, and then runs the bytes."""
    hidden = b"\1\0\0\0" + b"-" + b"0cposix\ngetpid\n)R."
    data = b"\x80\x04\x95" + (2).to_bytes(8, "little") + b"B\1" + hidden.ljust(3 + 257, b"-") + b"."
    assert pickle.load(io.BytesIO(data)) == os.getpid()
    assert isinstance(pickle.loads(data), bytes)
    path = tmp_path / "m.pkl"
    path.write_bytes(data)
    assert "posix.getpid" in scanned(path).loading.imports
    path = zipped(tmp_path / "m.pt", [("m/data.pkl", data)])
    assert code(path).status is Status.FAIL


def test_plain_values_before_the_first_pickle_of_a_row(tmp_path: Path) -> None:
    """CPython reads 0x10, which the doctor's reader refuses, and the old format goes on."""
    first = b"I0x10\n0" + pickle.dumps(0x1950A86A20F9469CFC6C, 2)
    path = tmp_path / "m.pt"
    path.write_bytes(first + b"\x80\x02" + EVIL + b"N.")
    assert code(path).status is Status.FAIL


def test_a_pickle_that_ends_before_its_frame(tmp_path: Path) -> None:
    """The next pickle begins where this one ends, or where its frame does."""
    first = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
    for rest in (b"Nu.", EVIL + b"N."):
        frame = b"\x80\x04\x95" + (2 + len(rest)).to_bytes(8, "little") + b"N." + rest
        after = b"N." if rest.startswith(EVIL) else EVIL + b"N."
        path = tmp_path / "m.pt"
        path.write_bytes(first + frame + after)
        assert code(path).status is Status.FAIL


def test_names_that_are_known_to_be_dangerous() -> None:
    for name in (
        "os.system",
        "posix.system",
        "nt.system",
        "subprocess.Popen",
        "builtins.eval",
        "builtins.exec",
        "builtins.compile",
        "builtins.__import__",
        "runpy._run_code",
        "importlib.import_module",
        "socket.create_connection",
        "_pickle.loads",
        "imaplib.IMAP4_stream",
        "_osx_support._read_output",
        "uuid._get_command_stdout",
        "test.support.script_helper.assert_python_ok",
        "shutil.rmtree",
        "sys.modules",
        "ctypes.CDLL",
        "webbrowser.open",
        "pty.spawn",
        "code.InteractiveInterpreter.runcode",
        "timeit.timeit",
        "torch.serialization.os.system",
        "torch.hub.load",
    ):
        assert is_dangerous(name), name
    for name in (
        "torch._utils._rebuild_tensor_v2",
        "transformers.training_args.TrainingArguments",
        "numpy._core.multiarray._reconstruct",
        "_codecs.encode",
        "builtins.getattr",
        "functools.partial",
        "pathlib.PosixPath",
        "pathlib._local.PosixPath",
        "code.models.Net",
        "test.Model",
        "numpy.random._pickle.__randomstate_ctor",
    ):
        assert not is_dangerous(name), name


def test_protocols_that_weights_only_loading_refuses(tmp_path: Path) -> None:
    for protocol, status in ((2, Status.PASS), (4, Status.WARN), (5, Status.WARN)):
        path = tmp_path / "m.pt"
        torch.save({"w": torch.ones(2)}, path, pickle_protocol=protocol)
        assert code(path).status is status
        try:
            torch.load(path, weights_only=True)
        except pickle.UnpicklingError:
            assert status is Status.WARN
        else:
            assert status is Status.PASS


@pytest.mark.parametrize("name", ["m.pkl", "m.h5", "m.npz", "m.onnx"])
def test_values_of_formats_that_are_named_only(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    for path in (tmp_path / name, tmp_path):
        request = ScanRequest(path=str(path), deep=True, baseline=str(path), tensors=True)
        checkpoint = read(request, no_stage, lambda note: None)
        assert isinstance(checkpoint, Checkpoint)
        assert isinstance(checkpoint.values, Unknown)
        assert isinstance(checkpoint.movement, Unknown)
        assert COMPLETE(checkpoint=checkpoint).status is Status.UNKNOWN


def test_an_unknown_dtype_of_a_header_is_a_warning(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"F32"', b'"F33"'))
    assert COMPLETE(checkpoint=scanned(folder)).status is Status.WARN


def test_what_a_trainer_leaves(tmp_path: Path) -> None:
    """Real files of transformers' Trainer: nothing but a note."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, vocab_size=32,
    )  # fmt: skip
    ids = torch.tensor([1, 2, 3])
    args = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=1, save_steps=1, report_to=[], use_cpu=True,
        disable_tqdm=True,
    )  # fmt: skip
    data = [{"input_ids": ids, "labels": ids}] * 8
    transformers.Trainer(transformers.LlamaForCausalLM(config), args, train_dataset=data).train()
    loading = scanned(tmp_path / "checkpoint-1").loading
    assert "transformers.training_args.TrainingArguments" in loading.beside["training_args.bin"]
    assert "rng_state.pth" in loading.beside
    assert (loading.dangerous, loading.refused, loading.unread) == ((), (), ())
    assert code(tmp_path / "checkpoint-1").status is Status.PASS


@pytest.mark.slow
def test_nothing_hostile_beside_good_weights_passes(tmp_path: Path) -> None:
    """Every gadget in every disguise and container: none passes, and almost all of them fail."""
    folder = model(tmp_path / "m")
    statuses: dict[str, Status] = {}
    for mutant in mutants():
        (folder / mutant.file).write_bytes(mutant.data)
        statuses[mutant.label] = code(folder).status
        (folder / mutant.file).unlink()
    assert len(statuses) > 1500
    passing = [label for label, status in statuses.items() if status in (Status.PASS, Status.NOTE)]
    assert not passing
    weak = [label for label, status in statuses.items() if status is not Status.FAIL]
    assert len(weak) < len(statuses) / 50
    assert all(label.endswith("in optimizer.pt") for label in weak)  # refused by weights_only


def test_classes_of_ones_own_beside_weights_are_a_note(tmp_path: Path) -> None:
    """As training arguments of one's own are; nobody but their writer reads the file."""
    folder = model(tmp_path / "m")
    made = b"cmylib.arguments\nMyArguments\n)\x81}b"
    member = b"cmylib.arguments\nMode\nX\x04\0\0\0fastq\x01\x85R0"
    path = folder / "training_args.bin"
    zipped(path, [("m/data.pkl", b"\x80\x02" + made + b".")])
    verdict = code(folder)
    assert verdict.status is Status.NOTE
    assert "mylib.arguments.MyArguments" in verdict.summary
    assert "only writes it" in verdict.summary
    zipped(path, [("m/data.pkl", b"\x80\x02" + member + made + b".")])
    assert code(folder).status is Status.NOTE
    path.rename(folder / "custom_checkpoint_0.pkl")
    assert code(folder).status is Status.WARN
    call = b"cmylib.arguments\nmake\n(K\x01K\x02tR0"
    zipped(path, [("m/data.pkl", b"\x80\x02" + call + made + b".")])
    assert code(folder).status is Status.FAIL


def test_danger_is_named_before_damage(tmp_path: Path) -> None:
    """Else the first remedy would be to fetch the file again."""
    path = tmp_path / "m.pt"
    zipped(path, [("m/data.pkl", b"\x80\x02" + EVIL + b"\xff}.")])
    checkpoint = scanned(path)
    complete = COMPLETE(checkpoint=checkpoint)
    assert complete.status is Status.FAIL
    assert "ownload" not in (complete.fix or "")
    facts = facts_of(str(path), checkpoint, 0.0)
    report = judge_scan(facts, {}, ConfigFlags(config=None, no_config=True), "fail", search=False)
    assert report.verdict_line.startswith("FIX: CKP010: Do not load this file")


def test_a_compressed_pickle_of_torch_is_read(tmp_path: Path) -> None:
    """data.pkl may be deflated; storages may not, since their bytes are read in place."""
    torch.save({"w": torch.ones(3) / 3}, tmp_path / "m.pt")
    with zipfile.ZipFile(tmp_path / "m.pt") as archive:
        records = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(tmp_path / "d.pt", "w") as archive:
        for name, data in records:
            packing = zipfile.ZIP_STORED if "/data/" in name else zipfile.ZIP_DEFLATED
            archive.writestr(name, data, packing)
    assert scanned(tmp_path / "d.pt").contents.tensors == 1
    assert code(tmp_path / "d.pt").status is Status.PASS
    zipped(tmp_path / "all.pt", records, zipfile.ZIP_DEFLATED)
    assert code(tmp_path / "all.pt").status is Status.UNKNOWN


def test_what_is_not_there_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "model.pt").symlink_to(tmp_path / "model.pt")
    assert code(tmp_path / "model.pt").status is Status.UNKNOWN
    (tmp_path / "c").mkdir()
    (tmp_path / "c/__0_0.distcp").write_bytes(b"x")
    found = scan(str(tmp_path / "c"))
    assert isinstance(found, Unknown) or CODE(checkpoint=found).status is Status.UNKNOWN


def text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


def named(module: str, name: str) -> bytes:
    return text(module) + text(name) + b"\x93"


LOOKED_UP = named("dill._dill", "_load_type")


@pytest.mark.parametrize(
    "data",
    [
        LOOKED_UP + b"(" + text("CodeType") + b"tR",
        named("dill", "_dill._load_type") + b"(" + text("CodeType") + b"tR",
        LOOKED_UP + named("builtins", "tuple") + b"((" + text("CodeType") + b"ltRR",
        named("functools", "partial") + b"(" + LOOKED_UP + text("CodeType") + b"tR)R",
        named("dill._dill", "_create_array") + b"(cos\nsystem\nK\x00NtR",
        named("dill._dill", "_create_function") + b"(tR",
    ],
)
def test_what_dill_calls_reaches_any_type(data: bytes, tmp_path: Path) -> None:
    """Whichever way the name is written, and whatever is called with it."""
    torch.save({"w": torch.ones(2)}, tmp_path / "model.pt")
    (tmp_path / "agent.pkl").write_bytes(b"\x80\x04" + data + b"0}.")
    found = code(tmp_path)
    assert found.status is Status.FAIL, found.summary


@pytest.mark.parametrize(
    ("value", "status"),
    [
        (defaultdict(list, {"a": [1.0]}), Status.NOTE),
        ({"regret": [0.5, -0.5]}, Status.UNKNOWN),
        ({"w": torch.nn.Linear(2, 2)}, Status.WARN),
    ],
)
def test_pickles_without_anything_of_torch_are_no_weights(
    value: object, status: Status, tmp_path: Path
) -> None:
    path = tmp_path / "values.pkl"
    path.write_bytes(pickle.dumps(value, 2))
    found = code(path)
    assert found.status is status
    assert ("torch did not write" in found.summary) is (status is Status.NOTE)


@pytest.mark.parametrize("then", [b"", text("state") + b"b"])
def test_a_plain_pickle_of_an_unfamiliar_class_is_a_warning(then: bytes, tmp_path: Path) -> None:
    """Its __setstate__ would run."""
    (tmp_path / "pytorch_model.bin").write_bytes(
        b"\x80\x02cmypkg.tools\nState\n)\x81" + then + b"."
    )
    assert code(tmp_path).status is Status.WARN
