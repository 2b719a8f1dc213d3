"""CKP008 and CKP010: adapters as peft saves them, and what pickles import."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from checkpoints import checkpoint as make_checkpoint
from judges import judge
from runs import llama

from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint, Problem, Role
from doctor.checkpoint.scan import scan
from doctor.facts.interpreter import Torch
from doctor.judge.check import Status, Verdict

ADAPTERS, CODE = judge("CKP008"), judge("CKP010")


def checkpoint(**changes: Any) -> Checkpoint:
    return make_checkpoint(
        path="/c", layout="x", count=1, tensors=9, parameters=9, bytes=9, largest=9, **changes
    )  # fmt: skip


def adapter(folder: Path, kind: str, dtype: str) -> Verdict:
    import peft
    import torch

    made = {
        "LORA": lambda: peft.LoraConfig(r=2, target_modules=["q_proj"]),
        "DORA": lambda: peft.LoraConfig(r=2, target_modules=["q_proj"], use_dora=True),
        "IA3": lambda: peft.IA3Config(target_modules=["k_proj"], feedforward_modules=[]),
    }[kind]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(llama("bfloat16"), made)
        if dtype == "bfloat16":
            model = model.to(torch.bfloat16)
        model.save_pretrained(folder)
    found = scan(str(folder))
    assert isinstance(found, Checkpoint)
    return ADAPTERS(checkpoint=found)


@pytest.mark.parametrize("kind", ["LORA", "DORA", "IA3"])
def test_adapters_of_peft(kind: str, tmp_path: Path) -> None:
    """fp32 beside a base in bf16 by default; bf16 after model.to()."""
    assert adapter(tmp_path / "default", kind, "default").status is Status.PASS
    verdict = adapter(tmp_path / "cast", kind, "bfloat16")
    assert verdict.status is Status.NOTE  # finished: nothing of its training lies beside it
    assert "BF16; F32 required" in verdict.summary
    (tmp_path / "cast" / "trainer_state.json").write_text('{"global_step": 9, "log_history": []}')
    found = scan(str(tmp_path / "cast"))
    assert isinstance(found, Checkpoint)
    assert ADAPTERS(checkpoint=found).status is Status.WARN


def test_adapters_that_are_none_or_strange() -> None:
    assert ADAPTERS(checkpoint=checkpoint()).status is Status.SKIP
    strange = (Role(name="layers.*.q_proj.lora_A.weight", dtypes={"U3": 2}),)
    assert ADAPTERS(checkpoint=checkpoint(roles=strange)).status is Status.UNKNOWN
    wrong = Problem(kind="not-inspectable", file="a.bin", text="cannot be read")
    said = checkpoint(problems=(wrong,), adapter="LORA")
    assert ADAPTERS(checkpoint=said).status is Status.UNKNOWN


def test_what_pickles_import() -> None:
    assert CODE(checkpoint=checkpoint()).status is Status.PASS
    imports = ("collections.OrderedDict", "torch._utils._rebuild_tensor_v2")
    assert CODE(checkpoint=checkpoint(pickles=2, imports=imports)).status is Status.PASS
    refused = tuple(f"evil.name{n}" for n in range(7))
    verdict = CODE(checkpoint=checkpoint(pickles=1, imports=imports + refused, refused=refused))
    assert verdict.status is Status.WARN
    assert "evil.name4 and 2 more" in verdict.summary
    wrong = Problem(kind="not-inspectable", file="a.bin", text="has opcode EXT1")
    assert CODE(checkpoint=checkpoint(problems=(wrong,))).status is Status.UNKNOWN


V2_4, V2_13, V2_15 = (Torch(version=version) for version in ("2.4.1", "2.13.0", "2.15.0+cu132"))
V2_1, V2_2 = Torch(version="2.1.2+cu121"), Torch(version="2.2.2+cu121")
V2_7 = Torch(version="2.7.1+cu126")
NESTED = "torch._utils._rebuild_nested_tensor"


@pytest.mark.parametrize(
    ("name", "refused", "refusing", "allowing"),
    [
        ("torch.bcomplex32", True, (V2_4, V2_13), (V2_15, Unknown(reason="a scan"))),
        (NESTED, False, (V2_15, Unknown(reason="a scan")), (V2_4, V2_13)),
        ("torch.uint4", False, (V2_4,), (V2_7, V2_13, V2_15)),
        ("torch.float4_e2m1fn_x2", False, (V2_4, V2_7), (V2_13, V2_15)),
        (NESTED, False, (V2_1,), (V2_2, V2_4)),
        ("torch.bfloat16", False, (V2_1, V2_2), (V2_4, V2_13)),
        ("builtins.set", False, (V2_1, V2_2, V2_4), (V2_13, V2_15)),
    ],
)
def test_what_is_refused_depends_on_the_torch_that_loads(
    name: str,
    refused: bool,
    refusing: tuple[Torch | Unknown, ...],
    allowing: tuple[Torch | Unknown, ...],
) -> None:
    """`refused` is what the reader records, by the list of torch 2.13."""
    imports = ("collections.OrderedDict", name)
    found = checkpoint(pickles=1, imports=imports, refused=(name,) if refused else ())
    for torch in refusing:
        verdict = CODE(checkpoint=found, torch=torch)
        assert (verdict.status, name in verdict.summary) == (Status.WARN, True)
        assert "of torch 2." in verdict.summary
    for torch in allowing:
        assert CODE(checkpoint=found, torch=torch).status is Status.PASS


def test_a_torch_whose_restricted_loading_can_be_bypassed_is_noted() -> None:
    found = checkpoint(pickles=1, imports=("torch.Size",))
    assert "CVE-2025-32434" in CODE(checkpoint=found, torch=V2_4).summary
    assert "CVE" not in CODE(checkpoint=found, torch=V2_13).summary
    assert "CVE" not in CODE(checkpoint=checkpoint(), torch=V2_4).summary


@pytest.mark.parametrize(
    ("refused", "status"),
    [
        (("argparse.Namespace", "pathlib.PurePosixPath", "datetime.datetime"), Status.NOTE),
        (("omegaconf.dictconfig.DictConfig", "numpy._core.multiarray.scalar"), Status.NOTE),
        (("argparse.Namespace", "mylib.Config"), Status.WARN),
        (("functools.partial",), Status.WARN),
    ],
)
def test_classes_that_hold_plain_values(refused: tuple[str, ...], status: Status) -> None:
    """Refused by weights-only loading, and harmless; a call of others is not."""
    verdict = CODE(checkpoint=checkpoint(pickles=1, imports=refused, refused=refused))
    assert (verdict.status, refused[0] in verdict.summary) == (status, True)


def test_what_is_worse_than_refused() -> None:
    """Known-dangerous before refused, refused before what could not be read."""
    evil = checkpoint(
        pickles=1, imports=("os.system", "mylib.A"), refused=("os.system", "mylib.A"),
        dangerous=("os.system",), unread=("a.pt is cut short",),
    )  # fmt: skip
    verdict = CODE(checkpoint=evil)
    assert verdict.status is Status.FAIL
    assert verdict.fix
    beside = {"training_args.bin": ("transformers.training_args.TrainingArguments",)}
    assert CODE(checkpoint=checkpoint(beside=beside)).status is Status.PASS
    executed = checkpoint(pickles=1, imports=("mylib.A",), executed=("mylib.A",))
    assert CODE(checkpoint=executed).status is Status.WARN
    unread = checkpoint(pickles=1, imports=("torch.Size",), unread=("a.pt is cut short",))
    assert CODE(checkpoint=unread).status is Status.UNKNOWN
    assert CODE(checkpoint=checkpoint(pickles=1, protocol=2)).status is Status.PASS
    assert CODE(checkpoint=checkpoint(pickles=1, protocol=5)).status is Status.WARN
