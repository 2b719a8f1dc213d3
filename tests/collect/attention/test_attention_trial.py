"""The attention trial of correct kernels: cases, shapes, references."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import command
import msgspec
import preloaded
import pytest
import recorded
from attention_trials import (
    CHOSEN,
    WRONG_DQ,
    Interpret,
    attention_in,
    attention_of,
    by_key,
    judged,
    on_cpu,
    shimmed,
)
from probe_code import REGISTERED

from doctor.checks.numerics import attention as checks
from doctor.checks.numerics.attention_trials import MODEL_GATES, ordinary
from doctor.collect import attention_trial
from doctor.collect.attention_trial import try_attention, try_implementations
from doctor.collect.children import Children
from doctor.collect.torch_child import TorchChild
from doctor.facts.facts import decode
from doctor.facts.load import Attention, Implementation
from doctor.judge.attention_gates import GATES
from doctor.judge.check import Status
from doctor.judge.engine import examine
from doctor.judge.switches import Switch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def of_this_torch(warm: TorchChild) -> Attention:
    """All trials of the installed torch."""
    return attention_in(warm, on_cpu())


def test_the_trial_of_this_machines_torch(of_this_torch: Attention) -> None:
    attention = of_this_torch
    trials = by_key(attention)
    assert len(trials) == len(attention.trials) == (len(attention.cases) + 1) * 4
    for case in attention.cases:
        for dtype in ("bf16", "fp16") if case is attention.cases[0] else ("bf16",):
            for backend in ("flash", "math"):
                trial = trials[case.name, dtype, backend]
                if case.dropout and backend == "flash":
                    assert trial.refused
                    assert "dropout" in trial.refused
                    continue
                assert trial.ended.ok, trial
                assert trial.refused is None
                assert not trial.nonfinite
                named = {"output", "dq", "dk", "dv"} if case.judged == "error" else set()
                assert set(trial.errors) == named
                assert all(0 < float(e) < GATES[dtype] / 2 for e in trial.errors.values()), trial
            for backend in ("mem_efficient", "cudnn"):
                refused = trials[case.name, dtype, backend].refused
                assert refused
                assert "No viable backend" in refused
            default = "math" if case.dropout else "flash"
            assert attention.defaults[f"{case.name}/{dtype}"] == default
    assert attention.cut_short == ""
    assert attention.seconds > 0
    finding = judged(on_cpu(), attention)
    assert finding.status is Status.PASS
    assert "19 trials of flash, math correct" in finding.verdict.summary


def test_the_shapes_provoke_what_they_are_meant_to(of_this_torch: Attention) -> None:
    attention = of_this_torch
    cases = {case.name: case for case in attention.cases}
    for name in ("very negative logits, mask", "very negative logits"):
        assert cases[name].keys % 128 == 64
        assert not cases[name].causal
        assert float(attention.lowest_lse[f"{name}/bf16"]) < -88.7
    assert cases["very negative logits, mask"].mask
    assert float(attention.lowest_lse["causal/bf16"]) > -88.7
    one = cases["one query"]
    assert (one.queries, one.heads // one.kv_heads) == (1, 7)
    assert cases["broadcast keys"].keys % 32 == 1
    assert cases["broadcast keys"].mask
    assert [case.name for case in attention.cases if ordinary(case)] == ["causal"]


def test_groups_with_one_plan_of_cudnn_are_in_one_share() -> None:
    shares, plans = probe("""
        trial = probe("attention.attention_trial")
        all_cases = cases.list_cases(torch.device("cuda"), None)
        name = lambda group: [group[0].name, group[1]]
        shares = [[name(g) for g in trial.plan(all_cases, "bf16", False, (n, 3))] for n in range(3)]
        plans = {}
        for case in all_cases:
            plans.setdefault(str(case.layout), []).append(case.name)
        print(json.dumps([shares, list(plans.values())]))
    """)
    assert [share.pop(0) for share in shares] == [["causal", "bf16"]] * 3
    whole = [["causal", "fp16"], *([case, "bf16"] for names in plans[1:] for case in names)]
    assert sorted(group for share in shares for group in share) == sorted(whole)
    for names in plans[1:]:
        (owner,) = [n for n in range(3) if [names[0], "bf16"] in shares[n]]
        assert all([name, "bf16"] in shares[owner] for name in names)
    assert ["no mask", "very negative logits"] in plans
    assert ["boolean mask", "very negative logits, mask", "fully masked row"] in plans


def test_what_the_doctor_leaves_out_is_named(warm: TorchChild) -> None:
    facts = on_cpu()
    records = attention_trial.Records()
    reason = "cuDNN is tried in bf16 only"
    answer = warm.request(
        60.0, on_note=records.add_note, stage="attention", device="cpu", shape=None, done=[],
        precision="bf16", quick=True, within=60.0, not_tried={"causal/bf16/flash": reason},
    )  # fmt: skip
    assert answer.ended.ok
    (left_out,) = [trial for trial in records.trials if trial.backend == "flash"]
    assert (left_out.refused, left_out.ended.ok) == (f"not tried: {reason}", True)
    attention = Attention(
        device="cpu",
        cases=records.cases,
        trials=tuple(records.trials),
        defaults={"causal/bf16": "math"},
    )
    finding = judged(facts, attention)
    assert finding.status is Status.PASS
    assert 'not tried: flash in bf16 for "causal"' in finding.verdict.summary
    by_default = msgspec.structs.replace(attention, defaults={"causal/bf16": "flash"})
    assert judged(facts, by_default).status is Status.UNKNOWN


def test_the_users_own_shape_comes_second(warm: TorchChild) -> None:
    facts = on_cpu(attention=(2, 3, 96, 32))
    attention = attention_in(warm, facts)
    own = attention.cases[1]
    assert (own.job, own.causal) == (True, True)
    assert (own.batch, own.heads, own.queries, own.keys, own.head_dim) == (2, 3, 96, 96, 32)
    ran = [trial for trial in attention.trials if trial.case == own.name and trial.errors]
    assert [(trial.dtype, trial.backend) for trial in ran] == [("bf16", "flash"), ("bf16", "math")]
    assert judged(facts, attention).status is Status.PASS


def probe(code: str, modules: tuple[str, ...] = preloaded.TORCH) -> Any:
    """What a script prints as JSON that has the cases of the probe at hand."""
    head = (
        REGISTERED + "import json, torch\ncases = probe('attention.attention_cases')\n"
        "cpu = torch.device('cpu')\n"
    )
    line = [preloaded.python(modules), "-c", head + textwrap.dedent(code), "2"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_reference_is_what_autograd_makes_of_float64_in_blocks_or_not() -> None:
    attention = probe("""
        worst = {}
        for case in cases.list_cases(cpu, None):
            if case.judged != "error":
                continue
            tensors = cases.inputs(case, torch.bfloat16, cpu)
            q, k, v = (t.double().requires_grad_() for t in (tensors.q, tensors.k, tensors.v))
            group = case.heads // case.kv_heads
            wide = [t.repeat_interleave(group, 1) for t in (k, v)]
            scores = q @ wide[0].transpose(-1, -2) / case.head_dim**0.5
            if case.causal:
                later = torch.ones(case.queries, case.keys, dtype=torch.bool).triu(1)
                scores = scores.masked_fill(later, -float("inf"))
            if tensors.mask is not None:
                scores = scores.masked_fill(~tensors.mask, -float("inf"))
            output = scores.softmax(-1) @ wide[1]
            merged = output.transpose(1, 2).reshape(tensors.upstream.shape)
            (merged * tensors.upstream.double()).sum().backward()
            right = dict(zip(cases.PARTS, (output.detach(), q.grad, k.grad, v.grad)))
            whole = cases.BUDGET
            for budget in (whole, 4 * 8 * case.batch * case.heads * case.keys * 7):
                cases.BUDGET = budget
                exact, lowest = cases.reference(case, tensors)
                assert abs(lowest - float(scores.logsumexp(-1).min().detach())) < 1e-9
                off = [float((exact[n] - right[n].flatten(0, 1)).abs().max()) for n in right]
                worst[case.name] = max(off + [worst.get(case.name, 0.0)])
            cases.BUDGET = whole
        print(json.dumps(worst))
    """)
    assert len(attention) == 7
    assert all(value < 1e-11 for value in attention.values()), attention


SHAPES = (
    ((8, 32, 4096, 128), 2**37, 10**13, (8, 32), "compared on 8 of 256 heads"),
    ((8, 32, 4096, 128), 2**31, 10**13, (4, 32), "tried with batch 4 and 32 heads"),
    ((8, 32, 4096, 128), 2**32, 25 * 10**8, (1, 1), "tried with batch 1 and 1 heads"),
    ((2, 4, 256, 64), 2**32, 25 * 10**8, (2, 4), ""),
    ((1, 1, 10**6, 64), 2**37, 10**14, None, "left out"),
    ((1, 2**20, 2**20, 2**20), 2**32, 10**13, None, "left out"),
)
"""Batch, heads, tokens and head_dim; bytes; products; the batch and heads tried; the note."""


def test_a_large_shape_is_reduced_with_a_note() -> None:
    arguments = [(list(shape), memory, work) for shape, memory, work, _, _ in SHAPES]
    records = probe(
        f"print(json.dumps([cases.case_of_job(*each).record() for each in {arguments}]))"
    )
    for record, (*_, tried, note) in zip(records, SHAPES, strict=True):
        assert record["note"].startswith(note)
        assert bool(record["note"]) == bool(note)
        assert record["left_out"] == (tried is None)
        if tried:
            assert (record["batch"], record["heads"]) == tried


def test_some_heads_stand_for_all_and_the_reference_is_of_those() -> None:
    attention = probe("""
        case = cases.case_of_job([2, 8, 64, 16], 2**32, 10**13)
        whole = cases.reference(case, cases.inputs(case, torch.float16, cpu))[0]
        cases.EXACT = 64 * 64 * 16 * 3
        some = cases.inputs(case, torch.float16, cpu)
        exact = cases.reference(case, some)[0]
        same = all(torch.equal(exact[n], whole[n][some.heads]) for n in exact)
        print(json.dumps([some.heads, same]))
    """)
    assert attention == [[0, 5, 10], True]


OLDER = """
    import contextlib
    import torch
    import torch.nn.attention
    del torch.nn.attention.sdpa_kernel
    switches = torch.backends.cuda

    @contextlib.contextmanager
    def sdp_kernel(enable_flash, enable_math, enable_mem_efficient):
        wanted = {"flash": enable_flash, "math": enable_math, "mem_efficient": enable_mem_efficient}
        before = {name: getattr(switches, name + "_sdp_enabled")() for name in wanted}
        for name, on in wanted.items():
            getattr(switches, "enable_" + name + "_sdp")(on)
        yield
        for name, on in before.items():
            getattr(switches, "enable_" + name + "_sdp")(on)

    switches.sdp_kernel = sdp_kernel
    del torch._fused_sdp_choice
    from torch.nn.functional import scaled_dot_product_attention as real

    def without_groups(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False):
        return real(q, k, v, attn_mask, dropout_p, is_causal)

    torch.nn.functional.scaled_dot_product_attention = without_groups
"""


def test_a_torch_without_the_newer_calls(interpret: Interpret, children: Children) -> None:
    facts = on_cpu(interpret(OLDER))
    attention = attention_of(children, facts)
    trials = by_key(attention)
    assert attention.defaults == {}
    for case in attention.cases:
        assert trials[case.name, "bf16", "math"].refused is None, case
        assert trials[case.name, "bf16", "math"].ended.ok
        assert "does not have this backend" in (trials[case.name, "bf16", "cudnn"].refused or "")
    assert trials["causal", "bf16", "flash"].errors
    finding = judged(facts, attention)
    assert finding.status is Status.PASS
    assert "does not report its default" in finding.verdict.summary


def test_no_smoke_leaves_the_trial_out(tmp_path: Path) -> None:
    saved = tmp_path / "facts.json"
    here = ("--device", "cpu", "--no-smoke", "--python", preloaded.python())
    command.doctor("run", *here, "--only", "NUM003", "--save-facts", saved)
    facts = decode(saved.read_bytes())
    assert facts.attention is None
    (finding,) = examine(checks.CHECKS, facts)
    assert finding.status is Status.SKIP


def test_implementations_of_transformers(interpret: Interpret, children: Children) -> None:
    attention: dict[str, tuple[Implementation, ...]] = {}
    pythons = {
        "right": preloaded.python(preloaded.TRAINER),
        "wrong": interpret(shimmed_always(WRONG_DQ), preloaded.TRAINER),
    }
    for name, python in pythons.items():
        attention[name] = try_implementations(
            children, on_cpu(python), "cpu", CHOSEN, lambda stage: None
        )
        assert [each.name for each in attention[name]] == ["eager", "sdpa"]
    for each in (*attention["right"], attention["wrong"][0]):
        assert each.ended.ok
        assert each.error is not None
        assert each.grad_error is not None
        assert 0 < float(each.error) < MODEL_GATES["bf16"] / 2
        assert 0 < float(each.grad_error) < MODEL_GATES["bf16"] / 2
    assert float(attention["wrong"][1].grad_error or 0) > MODEL_GATES["bf16"]


def shimmed_always(fault: str) -> str:
    """Also where no backend is asked for by name."""
    return shimmed(fault).replace("if offered and", "if")


def test_an_interpreter_without_transformers_says_so(
    interpret: Interpret, children: Children
) -> None:
    python = interpret("import sys\nsys.modules['transformers'] = None\n")
    (record,) = try_implementations(children, on_cpu(python), "cpu", CHOSEN, lambda stage: None)
    assert (record.name, record.ended.how) == ("import transformers", "error")
    assert "transformers" in record.ended.detail


def test_the_trial_imports_no_dynamo() -> None:
    code = """
        run = probe("attention.attention_trial").run
        run({"device": "cpu", "shape": None, "precision": "bf16", "within": 60, "done": []})
        heavy = ("torch._dynamo", "sympy", "torch.fx.experimental.symbolic_shapes")
        print(json.dumps([name for name in heavy if name in sys.modules]))
    """
    assert probe(code, preloaded.BARE) == []


@pytest.mark.gpu
def test_nan_in_dq_on_hopper(children: Children) -> None:
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("no NVIDIA GPU here: /dev/nvidiactl is missing")
    import torch

    version = tuple(map(int, torch.__version__.split("+")[0].split(".")[:2]))
    cudnn = torch.backends.cudnn.version() or 0
    affected = (2, 11) <= version <= (2, 14) and 91900 <= cudnn <= 92599
    if torch.cuda.get_device_capability() != (9, 0) or not affected:
        pytest.skip(f"not affected: torch {torch.__version__}, cuDNN {cudnn}")
    facts = recorded.machines()["h200_torch2.11"]
    child = TorchChild(children, sys.executable)
    attention = try_attention(child, facts, "cuda:0", CHOSEN, lambda stage: None)
    child.end()
    assert isinstance(attention, Attention)
    assert attention.cut_short == ""
    trials = by_key(attention)
    for dtype in (CHOSEN.precision,):
        case = "very negative logits, mask"
        assert attention.defaults[f"{case}/{dtype}"] == "cudnn"
        assert set(trials[case, dtype, "cudnn"].nonfinite) == {"dq"}
        for backend in ("mem_efficient", "math"):
            assert trials[case, dtype, backend].refused is None
            assert not trials[case, dtype, backend].nonfinite
        assert not trials["causal", dtype, "cudnn"].nonfinite
    finding = judged(facts, attention)
    assert finding.status is Status.WARN
    assert finding.verdict.sources == ("pytorch-196678",)
    assert Switch.CUDNN_SDP in finding.verdict.switches_off
