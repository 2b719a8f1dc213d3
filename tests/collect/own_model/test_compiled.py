"""The compiled step of the user's own training against the eager one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from own_code import Own, Well, step

from doctor._util.records import Ended
from doctor.checks.training import compiled
from doctor.facts.own_model import Compiled, OwnModel
from doctor.job.job import Chosen, Job, Precision
from doctor.judge.check import Owner, Status

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("made", "status", "text"),
    [
        (None, Status.UNKNOWN, "not tried"),
        (Compiled(ended=Ended(how="timeout", detail="no answer in 180 s")), Status.WARN, "180 s"),
        (Compiled(ended=Ended(how="signal", detail="SIGSEGV")), Status.FAIL, "SIGSEGV"),
        (Compiled(ended=Ended(how="error", detail="InvalidCxxCompiler: No working C++ compiler")),
         Status.FAIL, "C++"),
        (Compiled(ended=Ended(how="error", detail="GPUTooOldForTriton: Found Tesla P40 which is "
                              "too old to be supported by the triton GPU compiler")),
         Status.FAIL, "P40"),
        (Compiled(ended=Ended(how="ok")), Status.UNKNOWN, "not compared"),
        (Compiled(ended=Ended(how="ok"), eager=step(2.0), compiled=step(2.0), error=1e-4),
         Status.PASS, "gradients 0.0001"),
        (Compiled(ended=Ended(how="ok"), eager=step(2.0), compiled=step(2.0), error=0.5),
         Status.FAIL, "<= 0.001 required"),
        (Compiled(ended=Ended(how="ok"), eager=step(2.0), compiled=step(2.5), error=0.0),
         Status.FAIL, "loss 2.5 compiled, 2 eager"),
        (Compiled(ended=Ended(how="ok"), eager=step(2.0), compiled=step("nan"), error="nan"),
         Status.FAIL, "nan"),
        (Compiled(ended=Ended(how="ok"), eager=step("nan"), compiled=step("nan"), error="nan"),
         Status.UNKNOWN, "SMK006"),
    ],
)  # fmt: skip
def test_compiled_and_eager_are_compared(made: Any, status: Status, text: str) -> None:
    record = Well(compiled=made).own
    verdict = compiled.compiled_agrees(record, Job(compile=True), Chosen("fp32", ""))
    assert (verdict.status, text in verdict.summary) == (status, True), verdict.summary
    if text == "P40":
        assert "capability 7.0" in (verdict.fix or "")
    left_out = compiled.compiled_agrees(record, Job(), Chosen("fp32", ""))
    assert left_out.status is Status.SKIP


@pytest.mark.parametrize(
    ("eager_error", "compiled_error", "status"),
    [(0.2, 0.25, Status.PASS), (0.0025, 0.055, Status.FAIL), (None, None, Status.FAIL),
     (0.2, "nan", Status.FAIL)],
)  # fmt: skip
def test_a_difference_that_rounding_explains_is_no_failure(
    eager_error: Any, compiled_error: Any, status: Status
) -> None:
    """Two correct bf16 steps may be further apart than either is from fp32."""
    errors = {"eager_error": eager_error, "compiled_error": compiled_error}
    ended = Ended(how="ok")
    made = Compiled(ended=ended, eager=step(2.0), compiled=step(2.0), error=0.27, **errors,
                    differs_most="layers.0.q")  # fmt: skip
    verdict = compiled.compiled_agrees(
        Well(compiled=made).own, Job(compile=True), Chosen("bf16", "")
    )
    assert verdict.status is status
    assert ("layers.0.q" in verdict.summary) is (status is Status.FAIL)
    wrong_loss = msgspec.structs.replace(made, compiled=step(2.5))
    assert _agreement(Well(compiled=wrong_loss).own) is Status.FAIL


def _agreement(own: OwnModel) -> Status:
    return compiled.compiled_agrees(own, Job(compile=True), Chosen("bf16", "")).status


def test_a_compiled_step_agrees(
    own_process: Own, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    record = own_process(
        """
        import torch._inductor.config
        torch._inductor.config.cpp.vec_isa_ok = False  # the headers of vectors take 7 s to compile
        class Small(nn.Linear):
            def forward(self, x):
                return super().forward(x).pow(2).mean()
        def make():
            return Small(4, 2, bias=False), {"x": torch.ones(3, 4)}
        """,
        compile=True,
    )
    assert record.compiled
    if not record.compiled.ended.ok:
        pytest.skip(f"nothing compiles here: {record.compiled.ended.detail}")
    verdict = compiled.compiled_agrees(record, Job(compile=True), Chosen("fp32", ""))
    assert verdict.status is Status.PASS, verdict.summary
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(("precision", "factor"), [("fp32", 1.01), ("bf16", 1.2)])
def test_a_wrongly_compiled_step_does_not_agree(
    own: Own, precision: Precision, factor: float
) -> None:
    source = """
        class Wrong(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
            def forward(self, **inputs):
                return {"loss": self.inner(**inputs)["loss"] * FACTOR}
        def wrong(module, plain=torch.compile):
            torch.compile = plain
            return Wrong(module)
        torch.compile = wrong
        def make():
            return Net(), batch()
        """
    record = own(source.replace("FACTOR", str(factor)), precision, compile=True)
    verdict = compiled.compiled_agrees(record, Job(compile=True), Chosen(precision, ""))
    assert verdict.status is Status.FAIL
    result = record.compiled
    assert result
    assert result.error is not None
    assert abs(float(result.error) - (factor - 1)) < (factor - 1) / 10
    assert result.differs_most in ("a.weight", "a.bias", "b.weight", "b.bias")
    if precision == "bf16":
        assert float(result.eager_error or 1.0) < 0.02 < float(result.compiled_error or 0.0)
    else:
        assert result.eager_error is None


def test_a_model_that_does_not_compile(own: Own) -> None:
    record = own(
        """
        def broken(module, plain=torch.compile):
            torch.compile = plain
            raise RuntimeError("InvalidCxxCompiler: No working C++ compiler found")
        torch.compile = broken
        def make():
            return Net(), batch()
        """,
        compile=True,
    )
    verdict = compiled.compiled_agrees(record, Job(compile=True), Chosen("fp32", ""))
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.ENVIRONMENT)
    assert "g++" in (verdict.fix or "")
