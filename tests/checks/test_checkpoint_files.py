"""CKP001 to CKP003: files, dtypes of the device, dtypes of the model."""

from __future__ import annotations

from typing import Any

import pytest
from checkpoints import checkpoint as make_checkpoint

from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint, Problem, Role
from doctor.checks.checkpoint import dtypes, files
from doctor.facts.machine import Gpu
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Target, TargetKind
from doctor.judge.check import Check, Status, Verdict

(COMPLETE,), (SUPPORTED, CONSISTENT) = files.CHECKS, dtypes.CHECKS
PICKLED = Problem(kind="not-inspectable", file="a.bin", text="pickles are not inspectable yet")
ROLE = Role(name="layers.*.q_proj.weight", dtypes={"BF16": 30})


def checkpoint(**changes: Any) -> Checkpoint:
    fields: dict[str, Any] = {
        "path": "/models/llama",
        "layout": "safetensors shards",
        "count": 4,
        "tensors": 291,
        "parameters": 8_030_261_248,
        "bytes": 16_060_556_616,
        "largest": 4_976_698_672,
        "dtypes": {"BF16": 16_060_522_496},
        "roles": (ROLE,),
        "dtype": "bfloat16",
    }
    return make_checkpoint(**{**fields, **changes})


EMPTY: dict[str, Any] = {"tensors": 0, "dtypes": {}, "roles": ()}


def complete(*problems: Problem, **changes: Any) -> Verdict:
    return COMPLETE.judge(checkpoint=checkpoint(problems=problems, **changes))


def test_complete() -> None:
    verdict = complete()
    assert verdict.status is Status.PASS
    assert verdict.summary.startswith("4 files, 291 tensors, 16.1 GB")


def test_a_note_is_told_and_passes() -> None:
    verdict = complete(Problem(kind="note", file="x.safetensors", text="has tensors of dtype U3"))
    assert verdict.status is Status.PASS
    assert "U3" in verdict.summary


@pytest.mark.parametrize("kind", files.FAILS)
def test_what_is_not_whole_fails(kind: Any) -> None:
    stale = Problem(kind="stale-index", file="i.json", text="names others")
    verdict = complete(stale, Problem(kind=kind, file="m.safetensors", text="is cut short"))
    assert verdict.status is Status.FAIL
    assert verdict.summary.startswith("m.safetensors is cut short")


@pytest.mark.parametrize("kind", files.WARNS)
def test_what_is_out_of_place_warns(kind: Any) -> None:
    problem = Problem(kind=kind, file="", text="out of place")
    verdict = complete(problem, problem)
    assert verdict.status is Status.WARN
    assert "(and 1 more)" in verdict.summary
    assert verdict.fix


def test_a_pointer_comes_with_the_command_that_fetches_it() -> None:
    text = "is a git-LFS pointer to 4,976,698,672 bytes that were not fetched"
    problem = Problem(kind="disguised", file="m.safetensors", text=text)
    assert complete(problem).commands == ("git lfs install", "git -C /models/llama lfs pull")
    assert "git-lfs must be installed" in (complete(problem).fix or "")
    assert complete(problem).sources == ("git-lfs-spec",)
    verdict = complete(problem, path="/my models/m.safetensors")
    assert verdict.commands == ("git lfs install", "git -C '/my models' lfs pull")


def test_a_source_is_of_the_reason() -> None:
    def cited(kind: Any, file: str = "m.safetensors") -> tuple[str, ...]:
        return complete(Problem(kind=kind, file=file, text="is cut short")).sources

    assert COMPLETE.sources == cited("unfinished") == cited("damaged", "m.pt") == ()
    assert cited("missing") == ()
    index = cited("missing", "model.safetensors.index.json")
    assert (cited("over-limit"), index, cited("damaged")) == (
        ("safetensors-668",),
        ("huggingface-hub-4728",),
        ("safetensors-format",),
    )


def test_what_cannot_be_inspected_is_unknown() -> None:
    verdict = complete(PICKLED, **EMPTY)
    assert verdict.status is Status.UNKNOWN
    assert "not inspectable yet" in verdict.summary
    assert complete(**EMPTY).status is Status.UNKNOWN


def gpus(*capability: tuple[int, int]) -> JobGpus:
    found = [
        JobGpu(nvml=Gpu(index=n, uuid=f"GPU-{n}", name="a GPU", capability=each))
        for n, each in enumerate(capability)
    ]
    return JobGpus(gpus=tuple(found), by="torch")


def supported(
    dtypes: tuple[str, ...],
    job_gpus: JobGpus | Unknown,
    kind: TargetKind = "nvidia",
) -> Verdict:
    found = checkpoint(dtypes=dict.fromkeys(dtypes, 1000))
    return SUPPORTED.judge(checkpoint=found, target=Target(kind, "asked"), job_gpus=job_gpus)


@pytest.mark.parametrize(
    ("dtypes", "lowest", "status"),
    [
        (("BF16",), (8, 0), Status.PASS),
        (("BF16",), (7, 5), Status.WARN),
        (("F16", "F32", "I64", "U8"), (6, 1), Status.PASS),
        (("BF16", "F8_E4M3"), (8, 9), Status.PASS),
        (("F8_E4M3",), (8, 6), Status.WARN),
        (("F8_E5M2",), (8, 0), Status.WARN),
        (("F8_E8M0", "BF16"), (8, 0), Status.WARN),
        (("F4",), (10, 0), Status.PASS),
        (("F4",), (9, 0), Status.WARN),
        (("F8_E4M3FNUZ",), (9, 0), Status.WARN),
        (("C64", "complex128"), (7, 0), Status.PASS),
        (("complex32",), (9, 0), Status.WARN),
        (("quint8",), (9, 0), Status.UNKNOWN),
    ],
)
def test_dtypes_of_nvidia_gpus(
    dtypes: tuple[str, ...], lowest: tuple[int, int], status: Status
) -> None:
    assert supported(dtypes, gpus((10, 3), lowest)).status is status


def test_the_summary_names_what_is_lacking() -> None:
    summary = supported(("BF16", "F8_E4M3"), gpus((7, 5))).summary
    for part in ("BF16", "8.0", "F8_E4M3", "8.9", "7.5"):
        assert part in summary


@pytest.mark.parametrize(
    ("dtypes", "kind", "status"),
    [
        (("BF16", "F32"), "cpu", Status.PASS),
        (("BF16",), "rocm", Status.PASS),
        (("F16",), "mps", Status.PASS),
        (("F8_E4M3",), "cpu", Status.WARN),
        (("F4",), "cpu", Status.WARN),
        (("F8_E4M3",), "rocm", Status.UNKNOWN),
    ],
)
def test_dtypes_of_other_devices(dtypes: tuple[str, ...], kind: TargetKind, status: Status) -> None:
    assert supported(dtypes, Unknown(reason="no GPU was looked at"), kind).status is status


def test_unknown_gpus_or_dtypes_are_unknown() -> None:
    hung = Unknown(reason="nvmlInit hangs")
    assert supported(("BF16",), hung).status is Status.UNKNOWN
    assert supported(("BF16",), gpus()).status is Status.UNKNOWN
    assert supported(("U3",), gpus((9, 0))).status is Status.UNKNOWN
    assert supported(("F32",), hung).status is Status.PASS
    for found in (checkpoint(**EMPTY), checkpoint(problems=(PICKLED,))):
        verdict = SUPPORTED.judge(
            checkpoint=found, target=Target("cpu", ""), job_gpus=Unknown(reason="")
        )
        assert verdict.status is Status.UNKNOWN


def consistent(**changes: Any) -> Verdict:
    return CONSISTENT.judge(checkpoint=checkpoint(**changes))


def test_one_dtype_for_each_role() -> None:
    verdict = consistent()
    assert verdict.status is Status.PASS
    assert "bfloat16" in verdict.summary


def test_a_role_of_two_dtypes_warns() -> None:
    mixed = Role(name="layers.*.k_proj.weight", dtypes={"BF16": 30, "F32": 2})
    verdict = consistent(roles=(mixed, ROLE, mixed))
    assert verdict.status is Status.WARN
    assert "layers.*.k_proj.weight: 30 in BF16, 2 in F32 (and 1 more)" in verdict.summary


@pytest.mark.parametrize(
    "name",
    [
        "layers.*.mlp.gate.e_score_correction_bias",
        "encoder.block.*.layer.*.DenseReluDense.wo.weight",
        "blocks.*.attention.time_decay",
        "layers.*.self_attn.sinks",
        "query_tokens",
    ],
)
def test_roles_that_models_keep_in_fp32(name: str) -> None:
    kept = Role(name=name, dtypes={"BF16": 3, "F32": 2})
    assert consistent(roles=(ROLE, kept)).status is Status.PASS


def test_different_roles_may_differ() -> None:
    norm = Role(name="layers.*.norm.weight", dtypes={"F32": 60})
    assert consistent(roles=(ROLE, norm)).status is Status.PASS


def test_config_names_another_dtype() -> None:
    verdict = consistent(dtype="float32")
    assert verdict.status is Status.WARN
    assert "BF16" in verdict.summary
    assert "float32" in verdict.summary
    for silent in (None, "something else"):
        assert consistent(dtype=silent).status is Status.PASS


def test_integers_do_not_dominate() -> None:
    assert consistent(dtypes={"I64": 10**12, "BF16": 4}).status is Status.PASS
    assert consistent(dtypes={"I64": 10**12}).status is Status.PASS


def test_quantised_models_skip() -> None:
    assert consistent(quantized=True).status is Status.SKIP


def test_headers_that_were_not_read_are_unknown() -> None:
    assert consistent(**EMPTY).status is Status.UNKNOWN
    assert consistent(problems=(PICKLED,)).status is Status.UNKNOWN


@pytest.mark.parametrize("check", [COMPLETE, SUPPORTED, CONSISTENT], ids=lambda check: check.code)
def test_the_texts_are_there(check: Check) -> None:
    for text in (check.title, check.why, *check.passes, *check.warns, check.fix):
        assert text
    assert not check.title.endswith(".")
