"""`doctor run` on machines whose GPUs are pretended: the branches for GPUs, without a GPU.

It proves code, not hardware: torch is its CPU build that answers as one for CUDA, the driver is a
fake, and the speeds come from a pretended clock. What is asserted is that every branch runs to its
end, that no tensor is on the wrong device, and what the checks say of a machine that is well, or
that raises an error where the test asks for it.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import msgspec
import pretend
import pytest
from gpu_seconds import MEASURED, estimate
from pretend import PROFILES, Counts, counted
from recorded_parts import H100, TORCH_2_15
from recorded_parts import machine as recorded

from doctor import catalog
from doctor.collect import changes as possible
from doctor.collect.children import Children
from doctor.collect.memory_tests import run_memory_tests
from doctor.collect.own_training import collect_own
from doctor.collect.torch_child import TorchChild
from doctor.collect.workers import Worker, end
from doctor.facts.facts import Facts
from doctor.facts.own_model import OwnModel
from doctor.job.job import Chosen, Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Owner, Status, Verdict
from doctor.judge.engine import BROKEN, examine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(pretend.MISSING), reason=pretend.MISSING),
]

ALWAYS = {
    **dict.fromkeys(("DRV001", "DRV002", "TOR001", "TOR002", "TOR003", "TOR004"), "pass"),
    **dict.fromkeys(("GPU001", "GPU002", "GPU003", "GPU004"), "pass"),
    **dict.fromkeys(("NUM001", "NUM002", "NUM003", "NUM004"), "pass"),
    **dict.fromkeys(("SMK001", "SMK002", "SMK003", "SMK004"), "pass"),
}
"""What a machine that is well gets, whatever its GPU."""
QUICK = ALWAYS | dict.fromkeys(("GPU005", "GPU006", "GPU007", "GPU008"), "skip")
SLOW_SUM = {"GPU008": "warn"}
"""gloo, which stands for NCCL, is slower than the NVLinks that are pretended beside it."""
OWN = ("SMK005", "SMK006", "SMK007", "SMK008", "MEM001")
ILLEGAL = "CUDA error: an illegal memory access was encountered"
NO_IMAGE = "CUDA error: no kernel image is available for execution on the device"
MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(64, 32)
        self.block = torch.nn.TransformerEncoderLayer(32, 2, 64, dropout=0.1, batch_first=True)
        self.head = torch.nn.Linear(32, 64)
        self.head.weight = self.embedding.weight

    def forward(self, tokens, labels):
        logits = self.head(self.block(self.embedding(tokens)))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

def make():
    tokens = torch.randint(64, (4, 16))
    return Model(), {"tokens": tokens, "labels": (tokens * 7 + 3) % 64}
"""
AS_CUDA = """
import copy, io, torch

def refused(error, work):
    try:
        work()
    except error as raised:
        return str(raised)
    raise AssertionError("nothing was raised")

one = torch.arange(8, device="cuda:1", dtype=torch.float32)
other = torch.ones(8, device="cuda:0")
assert (one.is_cuda, one.device.index, (one * 2 + 1).sum().item()) == (True, 1, 64.0)
for wrong in (lambda: one + other, lambda: one + torch.ones(8), lambda: torch.cat([one, other])):
    assert "at least two devices" in refused(RuntimeError, wrong)
assert (one + torch.tensor(2.0)).device == one[torch.tensor([1, 2])].device == one.device
assert one.to("cuda:0").device == other.device and one.cpu().device.type == "cpu"
refused(TypeError, one.numpy)
refused(torch.OutOfMemoryError, lambda: torch.empty(1 << 40, device="cuda:1"))
refused(torch.AcceleratorError, lambda: torch.ones(1, device="cuda:2"))

filled = torch.empty(8, device="cuda:1")
torch.add(one, one, out=filled)
filled[2:4] = 7
assert filled.tolist() == [0.0, 2.0, 7.0, 7.0, 8.0, 10.0, 12.0, 14.0]
assert filled.view(2, 4).t()[0].device == one.device

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
model[1].weight = model[0].weight
weight = model[0].weight
model.to("cuda:1", torch.bfloat16)
assert model[0].weight is weight is model[1].weight and isinstance(weight, torch.nn.Parameter)
assert (weight.device, weight.dtype) == (one.device, torch.bfloat16)
model(torch.ones(2, 4, device="cuda:1", dtype=torch.bfloat16)).sum().backward()
assert weight.grad.device == one.device
assert copy.deepcopy(model)[0].bias.device == one.device

with torch.autocast("cuda", torch.float16):
    product = torch.ones(4, 4, device="cuda:1") @ torch.ones(4, 4, device="cuda:1")
assert (product.dtype, product.device) == (torch.float16, one.device)
scaler = torch.amp.GradScaler("cuda")
wide = torch.ones(4, device="cuda:1", requires_grad=True)
scaler.scale(wide.sum()).backward()
optimizer = torch.optim.AdamW([wide])
scaler.unscale_(optimizer)
scaler.step(optimizer)
scaler.update()
assert wide.grad.tolist() == [1.0] * 4 and float(wide.detach()[0]) < 1.0

before = torch.cuda.memory_allocated(0)
large = torch.empty(1 << 30, dtype=torch.uint8, device="cuda:0")
assert torch.cuda.memory_allocated(0) - before == 1 << 30
del large
assert torch.cuda.memory_allocated(0) == before
written = io.BytesIO()
torch.save(model.state_dict(), written)
assert written.tell() > 4 * 4 * 2
"""


@dataclass(frozen=True)
class Run:
    """One `doctor run`, as its JSON report tells it, and what its processes recorded."""

    code: int
    verdict: str
    findings: dict[str, dict[str, Any]]
    counts: Counts
    stages: frozenset[str]

    def of(self, expected: dict[str, str]) -> dict[str, str]:
        """The statuses of the codes that are expected."""
        return {code: self.findings[code]["status"] for code in expected}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretend.build(tmp_path_factory.mktemp("pretended"))


def examined(machine: pretend.Machine, *options: str) -> Run:
    """The report of a run in which no check broke."""
    done = machine.doctor("--format", "json", *options)
    assert done.returncode in (0, 1, 3), done.stderr
    report = json.loads(done.stdout)
    findings = {each["code"]: each for each in report["findings"]}
    broke = [each for each in report["findings"] if BROKEN in each["summary"]]
    assert not broke
    assert json.loads(machine.facts.read_text())
    record = machine.record()
    stages = frozenset(each["stage"] for each in record if "stage" in each)
    return Run(done.returncode, report["verdict"], findings, counted(record), stages)


def test_pretended_tensors_behave_as_those_of_cuda(libraries: Path, tmp_path: Path) -> None:
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["H100"], 2)
    subprocess.run([machine.python, "-c", AS_CUDA], env=machine.env, check=True)
    assert counted(machine.record()).contexts == {0: 1, 1: 1}


def test_one_gpu_with_a_model_of_the_user(libraries: Path, tmp_path: Path) -> None:
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["H100"])
    (tmp_path / "train.py").write_text(MODEL)
    run = examined(machine, "--model", f"{tmp_path / 'train.py'}:make")
    expected = ALWAYS | dict.fromkeys(("GPU005", "GPU006", *OWN), "pass")
    expected |= dict.fromkeys(("GPU007", "GPU008"), "skip")
    assert run.of(expected) == expected
    assert (run.code, run.counts.imports, run.counts.contexts) == (0, 2, {0: 2})
    # One plan forward and one backward for causal attention, shared with the smoke step, and for
    # the shape of the other cases without a mask and with one.
    assert run.counts.plans == 6
    assert run.counts.calls <= 21
    assert run.counts.serial <= 123  # of the process with the model
    highest = estimate(run.counts, 1, quick=False)[1]
    assert max(MEASURED[1, False].warm) <= (MEASURED[1, False].cold or 0) <= highest <= 10.0
    summary = run.findings["NUM003"]["summary"]
    assert 'not tried: cudnn in bf16 for "one query", "dropout"; cudnn in fp16 for' in summary


def test_two_gpus_under_load_and_between_each_other(libraries: Path, tmp_path: Path) -> None:
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["H100"], 2)
    run = examined(machine)
    expected = ALWAYS | dict.fromkeys(("GPU005", "GPU006", "GPU007"), "pass")
    expected |= SLOW_SUM
    assert run.of(expected) == expected
    assert "causal attention also on cuda:1" in run.findings["NUM003"]["summary"]
    assert run.code == 0
    assert run.counts.imports == 2
    assert run.counts.plans == 4  # the shape without a mask on one GPU, with one on the other
    assert run.counts.serial <= 80
    # A worker of torch and a process for the copies have a context each; the copies are over when
    # torch starts, as in exclusive compute mode a second process would be refused.
    assert run.counts.contexts == {0: 2, 1: 2}
    record = machine.record()
    with_torch = {each["pid"] for each in record if "import" in each}
    by_torch = [each["pid"] in with_torch for each in record if "context" in each]
    assert by_torch == [False, False, True, True]


def test_quick_has_one_process_for_eight_gpus(libraries: Path, tmp_path: Path) -> None:
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["H100"], 8)
    run = examined(machine, "--quick")
    expected = QUICK | {"NUM003": ANY}  # only causal attention is tried
    assert run.of(expected) == expected
    assert (run.code, run.counts.imports) == (0, 1)
    assert run.counts.contexts == dict.fromkeys(range(8), 1)
    assert (run.counts.plans, run.counts.calls <= 4) == (2, True)
    one_gpu = sum(estimate(run.counts, 1, quick=True)) / 2
    assert one_gpu <= 4.0


@pytest.mark.parametrize(
    ("name", "apart"),
    [
        ("RTX 4090", {}),
        ("RTX 5090", {}),
        ("T4", {}),
        ("V100", {}),
        ("GB10", {"GPU002": ANY}),
    ],
)
def test_other_models(libraries: Path, tmp_path: Path, name: str, apart: dict[str, str]) -> None:
    """A GB10 has its memory of this host, however full."""
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES[name])
    run = examined(machine, "--quick")
    assert run.of(QUICK | apart) == QUICK | apart
    assert (run.code, run.counts.imports, run.counts.contexts) == (0, 1, {0: 1})


def test_nothing_more_runs_on_a_gpu_without_a_kernel_image(libraries: Path, tmp_path: Path) -> None:
    errors = ({"stage": "kernel on cuda:1", "text": NO_IMAGE},)
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["H100"], 2, errors)
    run = examined(machine)
    expected = {"TOR003": "fail", "TOR004": "pass", "NUM003": "pass", "GPU007": "pass"}
    expected |= dict.fromkeys(("SMK001", "GPU005", "GPU006", "GPU008"), "unknown")
    assert run.of(expected) == expected
    assert "GPU 1" in run.findings["TOR003"]["summary"]
    assert (run.code, run.verdict) == (1, "fix")
    assert run.counts.imports <= 2


def test_a_build_without_code_for_the_gpus_is_named_at_once(
    libraries: Path, tmp_path: Path
) -> None:
    errors = ({"text": NO_IMAGE},)
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["RTX 5090"], 2, errors)
    run = examined(machine)
    failed = [code for code, finding in run.findings.items() if finding["status"] == "fail"]
    assert failed == ["TOR003"]
    tests = ("TOR004", "SMK001", "GPU005", "GPU006", "GPU008")
    assert run.of(dict.fromkeys(tests, "")) == dict.fromkeys(tests, "unknown")
    assert run.findings["GPU007"]["status"] == "pass"  # the copies need no torch
    assert (run.code, run.verdict) == (1, "fix")
    assert run.counts.imports <= 2


def test_cuda_that_does_not_start_in_torch_is_a_failure(libraries: Path, tmp_path: Path) -> None:
    errors = ({"stage": "torch.cuda.init", "text": "CUDA error: unknown error"},)
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["H100"], 2, errors)
    run = examined(machine)
    expected = {"DRV001": "pass", "GPU001": "fail", "SMK001": "unknown", "TOR004": "unknown"}
    assert run.of(expected) == expected
    assert "unknown error" in run.findings["GPU001"]["summary"]
    assert (run.code, run.verdict) == (1, "fix")
    assert run.counts.imports <= 2  # that of the second GPU begins early and may not end
    assert not {stage for stage in run.stages if stage.startswith("matmul")}


def test_a_gpu_that_others_use_is_not_put_under_load(libraries: Path, tmp_path: Path) -> None:
    use = {"FAKE_PROCESSES": "1"}
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["H100"], 2, **use)
    run = examined(machine)
    tests = ("GPU005", "GPU006", "GPU007", "GPU008")
    assert run.of(dict.fromkeys(tests, "")) == dict.fromkeys(tests, "unknown")
    assert run.findings["NUM003"]["status"] == "unknown"  # only the table of known bugs was read
    assert all("left out: cuda:0 is in use" in run.findings[code]["summary"] for code in tests)
    assert run.of({"SMK001": "pass", "TOR003": "pass"}) == {"SMK001": "pass", "TOR003": "pass"}
    assert not {"bf16 matmul", "all_reduce", "causal/bf16/reference"} & run.stages


def test_only_the_gpus_of_the_job_are_used(libraries: Path, tmp_path: Path) -> None:
    use = {"FAKE_PROCESSES": "1", "FAKE_PROCESSES_ON": "1"}
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["H100"], 2, **use)
    run = examined(machine, "--gpus", "1")
    expected = ALWAYS | dict.fromkeys(("GPU005", "GPU006"), "pass")
    expected |= dict.fromkeys(("GPU007", "GPU008"), "skip")
    assert run.of(expected) == expected
    assert (run.code, run.counts.imports, run.counts.contexts) == (0, 1, {0: 1})


def test_an_error_under_load_names_the_gpu_and_the_stage(libraries: Path, tmp_path: Path) -> None:
    errors = ({"stage": "bf16 matmul", "device": 1, "text": ILLEGAL},)
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["H100"], 2, errors)
    run = examined(machine)
    expected = {"GPU006": "fail", "GPU005": "unknown", "SMK001": "pass"} | SLOW_SUM
    assert run.of(expected) == expected
    summary = run.findings["GPU006"]["summary"]
    assert "GPU 1" in summary
    assert f"bf16 matmul: AcceleratorError: {ILLEGAL}" in summary


def test_a_step_that_breaks_the_context_costs_one_process(libraries: Path, tmp_path: Path) -> None:
    errors = ({"stage": "backward", "text": ILLEGAL, "once": True},)
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["RTX 4090"], 1, errors)
    run = examined(machine, "--quick")
    expected = {"SMK001": "fail", "TOR003": "pass", "NUM003": "pass"}
    assert run.of(expected) == expected
    assert run.code == 1
    assert (run.counts.imports, run.counts.contexts) == (2, {0: 2})


FORGETS = {"stage": "reading*", "device": 1, "operation": "ne"}
SMALL = dataclasses.replace(PROFILES["H100"], mib=704)
"""Pretended memory has values up to 64 MiB in a piece."""


def memory_facts(machine: pretend.Machine, monkeypatch: pytest.MonkeyPatch) -> Facts:
    """Two H100 whose memory was written and read back on this machine."""
    for variable, value in machine.env.items():
        monkeypatch.setenv(variable, value)
    pair = (H100, msgspec.structs.replace(H100, index=1, uuid="GPU-1"))
    facts = recorded(*pair, torch=TORCH_2_15, options=RunOptions(memory_test=True))
    children = Children()
    workers = tuple(
        Worker(f"cuda:{each.index}", each.uuid, each.name, TorchChild(children, machine.python))
        for each in pair
    )
    try:
        return run_memory_tests(workers, facts, lambda stage: None)
    finally:
        end(workers)
        children.interrupt()


@pytest.mark.parametrize(("forgets", "status"), [(None, Status.PASS), (FORGETS, Status.FAIL)])
def test_a_bit_that_the_memory_loses_is_found(
    libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    forgets: dict[str, Any] | None, status: Status,
) -> None:  # fmt: skip
    machine = pretend.machine(tmp_path / "machine", libraries, SMALL, 2, forgets=forgets)
    facts = memory_facts(machine, monkeypatch)
    assert isinstance(facts.memory_tests, tuple)
    whole, other = facts.memory_tests
    assert (whole.wrong, whole.patterns, whole.ended.ok) == (0, 4, True)
    assert (bool(other.wrong), bool(other.example)) == (bool(forgets), bool(forgets))
    assert all(0.5 * (each.free or 0) < (each.tried or 0) for each in facts.memory_tests)
    (finding,) = examine(catalog.lookup("GPU011"), facts)
    assert finding.status is status
    assert finding.owner is Owner.MACHINE


def test_the_memory_of_all_gpus_is_written_and_read_back(libraries: Path, tmp_path: Path) -> None:
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["RTX 4090"], 2)
    run = examined(machine, "--memory-test")
    assert run.findings["GPU011"]["status"] == "pass"
    assert "kept 4 patterns" in run.findings["GPU011"]["summary"]
    tests = json.loads(machine.facts.read_text())["memory_tests"]
    assert all(0.85 * each["free"] < each["tried"] <= 0.9 * each["free"] for each in tests)


@pytest.mark.parametrize(
    ("environment", "status", "words"),
    [
        ({"CUDA_MPS_PIPE_DIRECTORY": "HERE"}, "skip", "MPS"),
        ({"FAKE_REASONS": "0x80"}, "unknown", "the power brake was on"),
    ],
)
def test_memory_that_is_not_the_jobs_alone_is_left_alone(
    libraries: Path, tmp_path: Path, environment: dict[str, str], status: str, words: str
) -> None:
    (tmp_path / "control").touch()
    known = {key: value.replace("HERE", str(tmp_path)) for key, value in environment.items()}
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["H100"], **known)
    run = examined(machine, "--memory-test")
    assert run.findings["GPU011"]["status"] == status
    assert words in run.findings["GPU011"]["summary"]


def test_a_load_ends_where_the_gpu_brakes_and_a_slow_one_is_measured_twice(
    libraries: Path, tmp_path: Path
) -> None:
    slow = dataclasses.replace(PROFILES["H100"], half=400e12)
    machine = pretend.machine(tmp_path / "slow", libraries, slow)
    run = examined(machine)
    assert run.findings["GPU005"]["status"] == "warn"
    assert "400 TFLOP/s in bf16 at best, measured twice" in run.findings["GPU005"]["summary"]
    machine = pretend.machine(
        tmp_path / "braking", libraries, PROFILES["H100"], FAKE_REASONS="0x40"
    )
    run = examined(machine)
    expected = {"GPU004": "warn", "GPU005": "pass", "GPU006": "unknown"}
    assert run.of(expected) == expected
    assert "a hardware thermal slowdown was on" in run.findings["GPU006"]["summary"]
    assert "measured twice" not in run.findings["GPU005"]["summary"]


ERRORS = """
import torch

functions = torch.nn.functional


class Model(torch.nn.Module):
    def __init__(self, attention=False):
        super().__init__()
        self.embedding, self.attention = torch.nn.Embedding(32, 16), attention
        self.head = torch.nn.Linear(16, 32)

    def forward(self, tokens):
        x = self.embedding(tokens)
        if self.attention:
            x = functions.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])[:, 0]
        return self.head(x)


def tokens():
    return torch.randint(32, (4, 8))


def index():
    def loss(model, batch):
        scores = model(batch[0]).log_softmax(-1)
        return -scores.gather(-1, (batch[1] + 32)[..., None]).mean()

    return Model(), (tokens(), tokens()), loss


def ignored_label():
    labels = tokens()
    labels[0, :2] = -100

    def loss(model, batch):
        return -model(batch[0]).log_softmax(-1).gather(-1, batch[1][..., None]).mean()

    return Model(), (tokens(), labels), loss


def plain(attention=False):
    def loss(model, batch):
        return functions.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())

    return Model(attention), (tokens(), tokens()), loss


def with_attention():
    return plain(attention=True)
"""


def own_training(machine: pretend.Machine, file: Path, name: str) -> tuple[OwnModel, Verdict]:
    """What the doctor records of a factory on this machine, and SMK005's verdict."""
    children = Children()
    job = Job(device="cuda", model=f"{file}:{name}")
    try:
        own = collect_own(
            children, machine.python, job, "cuda:0", Chosen("bf16", ""), lambda stage: None
        )
    finally:
        children.interrupt()
    assert isinstance(own, OwnModel)
    (check,) = catalog.lookup("SMK005")
    return own, check.judge(own=own, smoke=None)


@pytest.mark.parametrize(
    ("name", "on_cpu", "word"),
    [
        ("index", "out of bounds for dimension 2 with size 32 in errors.py, line 27", "embedding"),
        ("ignored_label", "index -100 is out of bounds for dimension 2", "masked_fill"),
    ],
)
def test_a_failed_assertion_of_a_kernel_is_explained_on_the_cpu(
    libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, on_cpu: str,
    word: str,
) -> None:  # fmt: skip
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["H100"])
    (tmp_path / "errors.py").write_text(ERRORS)
    for variable, value in machine.env.items():
        monkeypatch.setenv(variable, value)
    own, verdict = own_training(machine, tmp_path / "errors.py", name)
    assert verdict.status is Status.FAIL
    assert "device-side assert" in verdict.summary
    assert "gather: `ind >=0 && ind < ind_dim_size` failed" in verdict.summary
    assert on_cpu in verdict.summary
    assert word in (verdict.fix or "")
    assert own.smoke
    assert own.smoke.diagnosis
    assert own.smoke.diagnosis.attempts == ()


@pytest.mark.parametrize(("name", "tried"), [("plain", False), ("with_attention", True)])
def test_attention_is_tried_after_an_error_of_a_kernel_only_where_it_is_called(
    libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, tried: bool
) -> None:
    errors = ({"stage": "backward", "text": ILLEGAL},)
    machine = pretend.machine(tmp_path / "machine", libraries, PROFILES["H100"], 1, errors)
    (tmp_path / "errors.py").write_text(ERRORS)
    for variable, value in machine.env.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(possible, "CHANGES", ("cudnn-off", "eager"))
    own, verdict = own_training(machine, tmp_path / "errors.py", name)
    assert "the same forward pass on the CPU completes" in verdict.summary
    assert own.smoke
    assert own.smoke.diagnosis
    changes = {each.change for each in own.smoke.diagnosis.attempts}
    assert ("cudnn-off" in changes) is tried
    assert verdict.owner is Owner.ENVIRONMENT
