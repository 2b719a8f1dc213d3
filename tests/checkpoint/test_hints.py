"""Directories above the weights, unfinished downloads, pipelines, and types by first bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch  # noqa: TID253
from judges import judge
from safetensors.torch import save_file  # noqa: TID253

from doctor._util.records import Unknown
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.file_type import describe_file_type
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint, Values
from doctor.checkpoint.scan import scan
from doctor.cli.scan import facts_of
from doctor.judge.check import Status
from doctor.report.formats.plain import render
from doctor.report.report import Report


def weights(path: Path, **tensors: torch.Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors or {"norm.weight": torch.randn(8)}, path)


def reason(path: Path) -> str:
    found = scan(str(path))
    assert isinstance(found, Unknown), found
    return found.reason


def looked(path: Path) -> Checkpoint:
    found = scan(str(path))
    assert isinstance(found, Checkpoint), found
    return found


def test_the_latest_checkpoint_by_its_number(tmp_path: Path) -> None:
    for step in (90, 100, 200, 1000):
        (tmp_path / f"checkpoint-{step}").mkdir()
    assert "such as checkpoint-1000, the latest of 4" in reason(tmp_path)


def test_the_hubs_cache_is_followed(tmp_path: Path) -> None:
    cache = tmp_path / "models--org--model"
    for revision in ("0123abc", "4567def"):
        weights(cache / "snapshots" / revision / "model.safetensors")
    (cache / "refs").mkdir()
    (cache / "blobs").mkdir()
    (cache / "refs" / "main").write_text("4567def")
    assert looked(cache).layout == "one safetensors file"
    (cache / "blobs" / "aa.incomplete").write_bytes(b"x")
    assert "1 .incomplete file" in looked(cache).problems[0].text
    (cache / "refs" / "main").write_text("gone")
    assert "no snapshot gone" in reason(cache)
    for wrong in ("..", "../../etc", ""):
        (cache / "refs" / "main").write_text(wrong)
        assert "does not name a revision" in reason(cache)


def test_an_interrupted_download(tmp_path: Path) -> None:
    downloads = tmp_path / ".cache" / "huggingface" / "download"
    downloads.mkdir(parents=True)
    (downloads / "model.safetensors.1f.incomplete").write_bytes(b"")
    assert "resumes it" in reason(tmp_path)
    weights(tmp_path / "model.safetensors")
    assert [problem.kind for problem in looked(tmp_path).problems] == ["note"]


def test_a_size_that_the_index_gives(tmp_path: Path) -> None:
    name = "model-00001-of-00001.safetensors"
    weights(tmp_path / name, a=torch.ones(4, 4))
    index = {"metadata": {"total_size": 64}, "weight_map": {"a": name}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert looked(tmp_path).problems == ()
    index["metadata"] = {"total_size": 12345}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (note,) = looked(tmp_path).problems
    assert "12,345 bytes; the tensors of its shards have 64" in note.text
    for strange in ({"total_size": "many"}, {"total_size": {}}, {}, None):
        index["metadata"] = strange  # type: ignore[assignment]
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
        assert looked(tmp_path).problems == ()


def test_a_pipeline(tmp_path: Path) -> None:
    """Every component's weights, under the component's name."""
    index = {
        "_class_name": "StableDiffusionPipeline",
        "unet": ["diffusers", "UNet2DConditionModel"],
        "vae": ["diffusers", "AutoencoderKL"],
        "scheduler": ["diffusers", "DDIMScheduler"],
        "safety_checker": [None, None],
    }
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    (tmp_path / "scheduler").mkdir()
    weights(tmp_path / "unet" / "diffusion_pytorch_model.safetensors", conv=torch.randn(3, 3))
    weights(
        tmp_path / "vae" / "diffusion_pytorch_model.safetensors",
        **{"conv": torch.randn(2, 2), "norm.weight": torch.randn(4)},
    )
    found = looked(tmp_path)
    assert found.layout == "diffusers pipeline (unet, vae)"
    assert {role.name for role in found.contents.roles} == {
        "unet.conv",
        "vae.conv",
        "vae.norm.weight",
    }
    assert (found.contents.tensors, found.problems) == (3, ())
    assert [norm.name for norm in found.contents.norms] == ["vae.norm.weight"]
    path = tmp_path / "unet" / "diffusion_pytorch_model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    (problem,) = looked(tmp_path).problems
    assert (problem.kind, problem.file) == ("damaged", "unet/diffusion_pytorch_model.safetensors")
    index["image_encoder"] = ["transformers", "CLIPVisionModel"]
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    assert "missing" in {problem.kind for problem in looked(tmp_path).problems}


@pytest.mark.parametrize(
    ("first", "text"),
    [
        (b"\x93NUMPY\x01\x00v\x00{'descr'", "numpy"),
        (b"ftrt\x00\x00\x00\x01", "TensorRT"),
        (b"\x1c\x00\x00\x00TFL3", "TensorFlow Lite"),
        (b"model.pt".ljust(257, b"\0") + b"ustar\x0000", "tar"),
        (b"7z\xbc\xaf\x27\x1c\x00\x04", "7z"),
        (b"\x10\x00\x00\x00\x00\x00\x00\x00{}", None),
    ],
)
def test_types_by_first_bytes(first: bytes, text: str | None, tmp_path: Path) -> None:
    described = describe_file_type(first)
    assert (described is None) == (text is None)
    assert text is None or text in str(described)
    path = tmp_path / "model.safetensors"
    path.write_bytes(first.ljust(600, b"\1"))
    if text:
        assert text in looked(path).problems[0].text


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("checkpoint", "model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001"), "TensorFlow"),
        (("model.joblib",), "joblib"),
        (("array.npy",), "numpy"),
        (("model.engine",), "TensorRT"),
    ],
)
def test_formats_that_are_only_recognized(
    names: tuple[str, ...], kind: str, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    assert kind in str(looked(tmp_path).not_inspectable)


def run(path: Path) -> None:
    made = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8))
    adam = torch.optim.AdamW(made.parameters())
    for step in (0, 9, 10, 100):
        under = path / f"checkpoint-{step}"
        weights(under / "model.safetensors", **made.state_dict())
        torch.save(adam.state_dict(), under / "optimizer.pt")
        (under / "trainer_state.json").write_text(json.dumps({"global_step": step}))
        made(torch.randn(4, 8)).square().mean().backward()
        adam.step()


def test_a_run_is_a_table_of_its_checkpoints(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "checkpoint-9" / "model.safetensors").write_bytes(b"cut")
    (tmp_path / "checkpoint-7").mkdir()
    found = read(ScanRequest(path=str(tmp_path), deep=True), no_stage, lambda note: None)
    assert isinstance(found, Checkpoint)
    assert isinstance(found.values, Values)
    assert (found.training.steps, found.contents.tensors) == (100, 4)
    rows = {row.name: row for row in found.siblings}
    assert list(rows) == [f"checkpoint-{step}" for step in (0, 7, 9, 10, 100)]
    assert (rows["checkpoint-0"].unchanged_norms, rows["checkpoint-100"].unchanged_norms) == (1, 0)
    assert (rows["checkpoint-10"].moments, rows["checkpoint-10"].nonzero_moments) == ({"F32": 4}, 4)
    assert "no weights" in rows["checkpoint-7"].reason
    assert rows["checkpoint-9"].problems == 1
    text = render(Report(facts_of(str(tmp_path), found, 0.0), ()))
    assert "checkpoint-10   10" in text
    assert "F32, 4 of 4 not zero" in text


def test_a_run_whose_latest_is_empty_or_broken(tmp_path: Path) -> None:
    """A trainer takes the latest by itself, so the last whole one is named."""
    run(tmp_path)
    complete = judge("CKP001")
    assert complete(checkpoint=scan_run(tmp_path)).status is Status.PASS
    (tmp_path / "checkpoint-130").mkdir()
    found = scan_run(tmp_path)
    verdict = complete(checkpoint=found)
    assert verdict.status is Status.FAIL
    assert "130 holds no weights; checkpoint-100 is the last whole one" in verdict.summary
    assert (found.training.steps, len(found.siblings)) == (100, 5)
    assert "ownload" not in (verdict.fix or "")
    assert "elete" not in (verdict.fix or "")
    (tmp_path / "checkpoint-130/model.safetensors").write_bytes(b"\x40\0\0\0\0\0\0\0{")
    (tmp_path / "checkpoint-100/model.safetensors").write_bytes(b"\x40\0\0\0\0\0\0\0{")
    verdict = complete(checkpoint=scan_run(tmp_path))
    assert "the file has 9); checkpoint-10 is the last" in verdict.summary


def test_a_run_whose_checkpoints_are_numbers(tmp_path: Path) -> None:
    for name in ("9", "10", "11/logs"):
        (tmp_path / name).mkdir(parents=True)
    weights(tmp_path / "9/model.safetensors")
    lone = read(ScanRequest(path=str(tmp_path)), no_stage, lambda note: None)
    assert isinstance(lone, Checkpoint)  # one number alone is no run
    assert (lone.path, lone.siblings) == (str(tmp_path / "9"), ())
    weights(tmp_path / "10/model.safetensors")
    complete = judge("CKP001")
    assert complete(checkpoint=(found := scan_run(tmp_path))).status is Status.PASS
    assert [row.name for row in found.siblings] == ["9", "10"]
    (tmp_path / "10/model.safetensors").write_bytes(b"\x40\0\0\0\0\0\0\0{")
    verdict = complete(checkpoint=scan_run(tmp_path))
    assert verdict.status is Status.FAIL
    assert "the file has 9); 9 is the last whole one" in verdict.summary


def test_a_latest_with_an_optimizer_alone(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "checkpoint-100/model.safetensors").unlink()
    found = scan_run(tmp_path)
    verdict = judge("CKP001")(checkpoint=found)
    assert verdict.status is Status.FAIL
    assert "checkpoint-100 holds no weights; checkpoint-10 is the last" in verdict.summary
    assert found.training.steps == 10


def test_what_a_run_wrote_is_not_downloaded_again(tmp_path: Path) -> None:
    run(tmp_path)
    path = tmp_path / "checkpoint-100"
    data = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(data[:-8])
    checkpoint = scan(str(path))
    assert isinstance(checkpoint, Checkpoint)
    verdict = judge("CKP001")(checkpoint=checkpoint)
    assert verdict.status is Status.FAIL
    assert (verdict.fix or "").startswith("Resume from an earlier checkpoint")


def scan_run(path: Path) -> Checkpoint:
    found = read(ScanRequest(path=str(path)), no_stage, lambda note: None)
    assert isinstance(found, Checkpoint), found
    return found


def test_modules_of_sentence_transformers_that_were_lost(tmp_path: Path) -> None:
    """Those that are made from a file of theirs; an empty directory is often lost."""
    weights(tmp_path / "model.safetensors", conv=torch.randn(3, 3))
    rows = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"),
            ("3_Normalize", "Normalize"), ("4_Own", "Own")]  # fmt: skip
    listed = [{"idx": n, "path": path, "type": f"sentence_transformers.models.{kind}"}
              for n, (path, kind) in enumerate(rows)]  # fmt: skip
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    for folder in ("1_Pooling", "2_Dense"):
        (tmp_path / folder).mkdir()
    (tmp_path / "1_Pooling/config.json").write_text("{}")
    (problem,) = looked(tmp_path).problems
    assert (problem.kind, problem.file) == ("missing", "modules.json")
    assert "2_Dense" in problem.text
    (tmp_path / "2_Dense/config.json").write_text("{}")
    assert looked(tmp_path).problems == ()
    own = [{"path": "5_Dense", "type": "own_code.Dense"}]
    (tmp_path / "modules.json").write_text(json.dumps(own))
    assert looked(tmp_path).problems == ()


@pytest.mark.parametrize("listed", ["{}", "[1, null]", "[{}]", "[", '[{"path": "../x"}]', "7"])
def test_a_list_of_modules_that_means_nothing_is_passed_over(listed: str, tmp_path: Path) -> None:
    weights(tmp_path / "model.safetensors", conv=torch.randn(3, 3))
    (tmp_path / "modules.json").write_text(listed)
    assert looked(tmp_path).problems == ()


@pytest.mark.parametrize(
    ("names", "status", "words"),
    [
        (["step-5.ckpt.index", "step-5.ckpt.meta"], Status.FAIL, "no file step-5.ckpt.data-*"),
        (["checkpoint", "model.ckpt-5.index"], Status.FAIL, "no file model.ckpt-5.data-*"),
        (
            ["step-5.ckpt.index", "step-5.ckpt.meta", "step-5.ckpt.data-00000-of-00001"],
            Status.UNKNOWN,
            "TensorFlow checkpoints",
        ),
        (["net.caffemodel", "net.prototxt"], Status.UNKNOWN, "Caffe weights"),
    ],
)
def test_what_lies_there_is_named(
    names: list[str], status: Status, words: str, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"\x0a\x05Shape of a file")
    found = judge("CKP001")(checkpoint=looked(tmp_path))
    assert found.status is status
    assert words in found.summary


def test_an_index_of_another_program_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "vectors.index").write_bytes(b"IxF2")
    assert "no weights are in this directory" in reason(tmp_path)


def test_files_beside_what_was_read_and_states_are_named(tmp_path: Path) -> None:
    torch.save({"width": 4}, tmp_path / "model.pt")
    alone = judge("CKP001")(checkpoint=looked(tmp_path)).summary
    assert "not read" not in alone
    torch.save({"w": torch.ones(4)}, tmp_path / "state.pt")
    assert "not read: state.pt" in judge("CKP001")(checkpoint=looked(tmp_path)).summary
    layer = torch.nn.Linear(2, 2)
    steps = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 2)).sum().backward()
    steps.step()
    torch.save(steps.state_dict(), tmp_path / "optimizer.pt")
    found = judge("CKP001")(checkpoint=looked(tmp_path / "optimizer.pt"))
    assert found.status is Status.UNKNOWN
    assert "the state of an optimizer, with its moments" in found.summary
