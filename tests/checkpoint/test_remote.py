"""Checkpoints at addresses: ranges of bytes alone, clear words for what goes wrong, no secrets."""

from __future__ import annotations

import gc
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from web_server import serving

from doctor._util.records import Unknown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io import http_ranges as web
from doctor.checkpoint.io import remote_files
from doctor.checkpoint.io.addresses import locate
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.io.remote_files import RemoteFile
from doctor.checkpoint.io.urls import describe_error, is_address, redact_url
from doctor.checkpoint.records import Checkpoint
from doctor.checkpoint.scan import scan

pytest.importorskip("aiohttp")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in shards, as transformers saves it, and one in a single file of 8 MB."""
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM

    root = tmp_path_factory.mktemp("served")
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(root / "sharded", max_shard_size="30KB")
    (root / "single").mkdir()
    weights = {"big.weight": torch.zeros(2048, 2048, dtype=torch.bfloat16), "norm.weight": ones()}
    save_file(weights, str(root / "single" / "model.safetensors"))
    gc.collect()
    return root


def ones():  # type: ignore[no-untyped-def]
    import torch

    return torch.ones(512, dtype=torch.bfloat16)


def found(address: str) -> Checkpoint:
    checkpoint = scan(address)
    assert isinstance(checkpoint, Checkpoint), checkpoint
    return checkpoint


def reason(address: str) -> str:
    """What is told where nothing can be said of the contents."""
    checkpoint = scan(address)
    if isinstance(checkpoint, Unknown):
        return checkpoint.reason
    assert checkpoint.not_inspectable, checkpoint.problems
    return checkpoint.not_inspectable


@pytest.mark.slow
def test_a_sharded_model_is_read_as_on_a_disk(root: Path) -> None:
    here = found(str(root / "sharded"))
    with serving(root) as served:
        there = found(f"{served.address}/sharded")
    assert there.layout == here.layout
    assert (there.files.count, there.contents.tensors, there.files.bytes) == (
        here.files.count,
        here.contents.tensors,
        here.files.bytes,
    )
    assert there.files.count == 3
    assert there.contents.norms == here.contents.norms
    assert there.contents.roles == here.contents.roles
    assert there.problems == here.problems
    assert there.model.model_type == "llama"


def test_only_the_header_and_the_norms_are_transferred(root: Path) -> None:
    with serving(root) as served:
        there = found(f"{served.address}/single")
        assert there.files.bytes > 8_000_000
        assert [norm.value for norm in there.contents.norms] == ["ones"]
        assert served.sent < 140_000


@pytest.mark.slow
def test_a_file_and_an_index_can_be_named(root: Path) -> None:
    with serving(root) as served:
        assert found(f"{served.address}/single/model.safetensors").contents.tensors == 2
        index = f"{served.address}/sharded/model.safetensors.index.json"
        assert found(index).contents.tensors == found(str(root / "sharded")).contents.tensors


def test_a_request_tells_size_and_ranges_and_files_are_asked_once(root: Path) -> None:
    with serving(root) as served:
        found(f"{served.address}/single/model.safetensors")
        weights = [path for path in served.paths if path.endswith("model.safetensors")]
    assert len(weights) == 3  # one byte, the header, the norm


@pytest.mark.parametrize(
    ("manner", "said"),
    [
        ("no-ranges", "does not serve byte ranges; download it first"),
        ("shifted", "the server sent another range"),
        ("early", "the server ended early"),
        ("changing", "was changed while it was read"),
        ("gzip", "compressed"),
    ],
)
@pytest.mark.slow
def test_a_server_that_misbehaves_is_told_and_not_downloaded(
    root: Path, manner: str, said: str
) -> None:
    with serving(root, manner) as served:
        assert said in reason(f"{served.address}/single/model.safetensors")
        assert said in reason(f"{served.address}/single")
        assert manner != "no-ranges" or served.sent <= 3_000_000  # what socket buffers hold


def test_bytes_beyond_the_range_are_not_listened_to(root: Path) -> None:
    with serving(root, "longer") as served:
        assert found(f"{served.address}/single/model.safetensors").contents.tensors == 2


@pytest.mark.parametrize("manner", ["slow", "silent"])
@pytest.mark.slow
def test_a_server_that_takes_too_long_is_given_up(
    root: Path, manner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "SECONDS", 1.0)
    began = time.monotonic()
    with serving(root, manner) as served:
        assert "no answer in time" in reason(f"{served.address}/single/model.safetensors")
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("status", "said"), [(403, "403 Forbidden"), (401, "401"), (500, "500"), (302, "redirect")]
)
def test_a_refusal_is_one_line(root: Path, status: int, said: str) -> None:
    with serving(root) as served:
        served.statuses["model.safetensors"] = status
        text = reason(f"{served.address}/single/model.safetensors?token=secret")
    assert said.casefold() in text.casefold()
    assert "secret" not in text
    assert "\n" not in text


def test_what_is_absent_is_missing(root: Path) -> None:
    with serving(root) as served:
        assert "is missing (404 Not Found)" in reason(f"{served.address}/single/other.safetensors")
        assert "no weights are in this directory" in reason(f"{served.address}/nothing")
    assert "Connection refused" in reason("http://127.0.0.1:1/single")


def test_a_host_that_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network, and where the network answers for every name."""

    def unknown(*asked: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    text = reason("http://no-such-host.invalid/model")
    assert "no-such-host.invalid" in text
    assert "cannot be read" in text
    assert "names no host" in reason("http:///model")
    assert "names no host" in reason("http://[::1/model")


def test_shards_that_answer_404_are_missing(root: Path) -> None:
    with serving(root) as served:
        names = [path.name for path in (root / "sharded").glob("*.safetensors")]
        served.statuses = {sorted(names)[1]: 404}
        there = found(f"{served.address}/sharded")
    (problem,) = there.problems
    assert problem.kind == "missing"
    assert sorted(names)[1] in problem.text


def test_an_empty_file_and_one_that_is_cut_short(root: Path, tmp_path: Path) -> None:
    whole = (root / "single" / "model.safetensors").read_bytes()
    (tmp_path / "empty.safetensors").write_bytes(b"")
    (tmp_path / "short.safetensors").write_bytes(whole[:5000])
    with serving(tmp_path) as served:
        (empty,) = found(f"{served.address}/empty.safetensors").problems
        (short,) = found(f"{served.address}/short.safetensors").problems
    assert empty.text == "is empty"
    assert "cut short" in short.text


@pytest.mark.slow
def test_names_in_an_index_are_quoted(tmp_path: Path) -> None:
    """A stranger's file name adds no query and leads to no other folder."""
    index = {"weight_map": {"a": "x?y=#%2e%2e.safetensors", "b": "ü \u2028.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with serving(tmp_path) as served:
        there = found(served.address)
        paths = [path for path in served.paths if "x" in path.rpartition("/")[2][:1]]
    assert [problem.kind for problem in there.problems] == ["missing"]
    assert paths == ["/x%3Fy%3D%23%252e%252e.safetensors"] * len(paths) or paths[0].startswith(
        "/x%3Fy=%23%252e%252e"
    )


def test_passwords_and_tokens_are_used_and_never_told(root: Path) -> None:
    with serving(root) as served:
        host = served.address.removeprefix("http://")
        there = found(f"http://user:secret@{host}/single/model.safetensors?token=secret")
        assert served.paths[0].endswith("model.safetensors?token=secret")
    assert there.path == f"http://{host}/single/model.safetensors"
    assert "secret" not in str(there)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("https://user:pw@host/a/b?X-Amz-Signature=1#x", "https://host/a/b"),
        ("https://host/a@b/c", "https://host/a@b/c"),
        ("s3://key:secret@bucket/model", "s3://bucket/model"),
        ("https://us@er:p@ss@host", "https://host"),
        ("https://host?sig=1", "https://host"),
        ("hf://org/model@main/x", "hf://org/model@main/x"),
        ("/data/run?1", "/data/run?1"),
    ],
)
def test_redacted(address: str, told: str) -> None:
    assert redact_url(address) == told
    assert is_address(address) == (not address.startswith("/"))


def test_errors_of_libraries_are_cut_and_redacted() -> None:
    error = ValueError("bad https://u:p@host/x?sig=abc and /y?token=abc\nsecond line")
    text = describe_error(error)
    assert text == "ValueError: bad https://host/x and /y"


@pytest.mark.parametrize(
    ("address", "path", "name"),
    [
        ("https://huggingface.co/org/model", "/org/model/resolve/main", ""),
        ("https://huggingface.co/org/model/tree/v1", "/org/model/resolve/v1", ""),
        (
            "https://huggingface.co/org/model/blob/main/model.safetensors",
            "/org/model/resolve/main",
            "model.safetensors",
        ),
        ("https://host/a%20b/", "/a b", ""),
        ("https://host", "", ""),
        ("https://host/step-5/.metadata", "/step-5", ".metadata"),
    ],
)
def test_where_an_address_leads(address: str, path: str, name: str) -> None:
    _, folder, file = web.locate_web(address)
    assert (folder, file) == (path, name)


@pytest.fixture
def memory(root: Path) -> Iterator[str]:
    """The sharded model in fsspec's own memory, which lists folders."""
    import fsspec

    filesystem = fsspec.filesystem("memory")
    for path in (root / "sharded").iterdir():
        filesystem.pipe(f"/model/{path.name}", path.read_bytes())
    yield "memory://model"
    filesystem.rm("/model", recursive=True)


def test_a_file_system_that_lists_folders(root: Path, memory: str) -> None:
    import fsspec

    there, here = found(memory), found(str(root / "sharded"))
    assert (there.files.count, there.contents.tensors, there.contents.norms) == (
        here.files.count,
        here.contents.tensors,
        here.contents.norms,
    )
    assert there.path == memory
    folder, name = locate(memory)
    assert name == ""
    assert "config.json" in folder.names()
    fsspec.filesystem("memory").pipe("/model/inner/x.bin", b"x")
    assert "inner/" in folder.names()
    assert folder.inside("inner/").names() == ["x.bin"]
    with pytest.raises(CheckpointError, match="a directory"), folder.open("inner"):
        pass
    assert found(f"{memory}/model.safetensors.index.json").contents.tensors == here.contents.tensors
    assert "is missing" in reason("memory://model/absent.safetensors")


def test_addresses_that_nobody_serves() -> None:
    assert "abc" in reason("abc://bucket/x")
    assert "chain of addresses" in reason("simplecache::http://host/model")
    assert "chain of addresses" in reason("s3://bucket/model::x")


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert "pip install s3fs" in reason("s3://bucket/model")


def test_file_addresses_are_paths(root: Path) -> None:
    folder, name = locate(f"file://{root}/single")
    assert isinstance(folder, LocalDirectory)
    assert name == ""
    assert found(f"file://{root}/single/model.safetensors").contents.tensors == 2


def test_what_is_read_of_one_file_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_files, "MOST", 1 << 20)
    file = RemoteFile(1 << 40, lambda begin, end: bytes(end - begin))
    file.read(512 << 10, 1 << 30)
    with pytest.raises(CheckpointError, match="download it first"):
        file.read(1 << 20, 1 << 31)


def test_reads_are_exact_and_those_ahead_are_served_from_memory() -> None:
    data = bytes(range(256)) * 4000
    paths: list[tuple[int, int]] = []

    def fetch(begin: int, end: int) -> bytes:
        paths.append((begin, end))
        return data[begin:end]

    file = RemoteFile(len(data), fetch)
    assert file.read(10, 0) == data[:10]
    assert file.read(50_000, 5) == data[5:50_005]
    assert paths == [(0, remote_files.FIRST)]
    file.prefetch([(200_000, 200_010), (300_000, 300_020), (-5, 3), (9, 8)])
    assert sorted(paths[1:]) == [(200_000, 200_010), (300_000, 300_020)]
    assert file.read(20, 300_000) == data[300_000:300_020]
    assert file.read(10, 300_010) == data[300_010:300_020]
    assert file.read(100, len(data) - 10) == data[-10:]
    assert file.read(1, len(data)) == b""
    assert len(paths) == 4


def test_ranges_that_lie_close_are_one_request() -> None:
    assert remote_files.coalesce([(40_000, 40_010), (0, 10), (5, 20), (1000, 1010)]) == [
        (0, 1010),
        (40_000, 40_010),
    ]
    rows = [(number * 10_000, number * 10_000 + 9_000) for number in range(1000)]
    found = remote_files.coalesce(rows)
    assert len(found) == 10
    assert max(end - begin for begin, end in found) <= remote_files.LONGEST_MERGED


def test_bytes_that_do_not_come_are_wrong() -> None:
    file = RemoteFile(1000, lambda begin, end: b"x")
    with pytest.raises(CheckpointError, match="1 of 1,000 bytes came"):
        file.read(10, 0)
    file.prefetch([(0, 5)])  # says nothing: whoever reads is told


@pytest.mark.slow
def test_what_torch_saved_is_read_by_ranges(tmp_path: Path) -> None:
    import torch

    weights = {f"layers.{number}.w1.weight": torch.zeros(256, 256) for number in range(40)}
    torch.save(weights, tmp_path / "pytorch_model.bin")
    here = found(str(tmp_path / "pytorch_model.bin"))
    with serving(tmp_path) as served:
        there = found(f"{served.address}/pytorch_model.bin")
        assert served.sent < 1_000_000
    assert there.contents.tensors == here.contents.tensors == 40
    assert there.loading.imports == here.loading.imports
    assert there.problems == here.problems
