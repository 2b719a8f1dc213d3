"""The prescription: true for the machine, and each form does what it says when it is used."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import preloaded
import pytest
from recorded import machines
from recorded_parts import H100, TORCH_2_11, TORCH_2_15, host, job, machine

from doctor import catalog
from doctor.checks.numerics.environment import LEFTOVERS
from doctor.facts.facts import Facts
from doctor.judge.check import Status
from doctor.judge.engine import examine
from doctor.judge.switches import Switch
from doctor.prescribe.context import Mode, Setting
from doctor.prescribe.rules import prescribe
from doctor.report.prescription import Form, render
from doctor.report.report import Report

MACHINES = machines()
H200 = MACHINES["h200_torch2.11"]
MODES: tuple[Mode, ...] = ("stable", "fast", "diagnostic")


def settings_of(facts: Facts, mode: Mode = "stable") -> dict[str, Setting]:
    """The settings by name."""
    settings = prescribe(facts, examine(catalog.MACHINE_CHECKS, facts), mode)
    return {setting.name: setting for setting in settings}


def prescribed(
    facts: Facts, form: Form = "python", mode: Mode = "stable", deterministic: bool = False
) -> str:
    findings = examine(catalog.MACHINE_CHECKS, facts)
    settings = prescribe(facts, findings, mode, deterministic=deterministic)
    return render(Report(facts, findings), settings, mode, form)


QUIET = "import sys, warnings\nwarnings.simplefilter('ignore')\nexec(sys.stdin.read())"


def run(code: str, python: str = "", **env: str) -> str:
    """What a script prints; the interpreter, if none is given, has torch imported."""
    done = subprocess.run(
        [python or preloaded.python(), "-c", QUIET],
        input=code,
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | preloaded.OFFLINE | env,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_python_form_runs() -> None:
    forms = [
        prescribed(facts, mode=mode, deterministic=deterministic)
        for facts in MACHINES.values()
        for mode in MODES
        for deterministic in (False, True)
    ]
    run("\n".join(f"exec({form!r}, {{}})" for form in forms))


READ = """
print(json.dumps({
    "cudnn": torch.backends.cuda.cudnn_sdp_enabled(),
    "flash": torch.backends.cuda.flash_sdp_enabled(),
    "tf32": torch.backends.cuda.matmul.fp32_precision,
    "autocast": str(autocast.fast_dtype) if hasattr(autocast, "fast_dtype") else None,
    "scaler": type(scaler).__name__,
    "dtype": str(load["dtype"]),
    "attention": load["attn_implementation"],
    "efficient": torch.backends.cuda.mem_efficient_sdp_enabled(),
    "deterministic": torch.are_deterministic_algorithms_enabled(),
}))
"""


def effect(facts: Facts, mode: Mode = "stable", deterministic: bool = False) -> dict[str, object]:
    text = prescribed(facts, mode=mode, deterministic=deterministic)
    values: dict[str, object] = json.loads(run(f"import json\n{text}\n{READ}"))
    return values


@pytest.mark.slow
def test_what_the_python_form_sets_on_an_h200() -> None:
    assert effect(H200) == {
        "cudnn": False,
        "flash": True,
        "tf32": "tf32",
        "autocast": "torch.bfloat16",
        "scaler": "NoneType",
        "dtype": "torch.float32",
        "attention": "sdpa",
        "efficient": True,
        "deterministic": False,
    }


@pytest.mark.slow
def test_the_diagnostic_mode_disables_every_fused_kernel() -> None:
    values = effect(H200, "diagnostic", deterministic=True)
    fused = (values["cudnn"], values["flash"], values["efficient"])
    assert (*fused, values["attention"]) == (False, False, False, "eager")
    assert (values["tf32"], values["autocast"], values["scaler"]) == ("ieee", None, "NoneType")
    assert values["deterministic"] is True


@pytest.mark.slow
def test_fp16_has_a_scaler_and_no_tf32_below_8() -> None:
    values = effect(MACHINES["t4"])
    assert values["scaler"] == "GradScaler"
    assert values["tf32"] == "none"
    assert values["autocast"] == "torch.float16"


def test_pure_bf16_loads_bf16_weights_without_autocast() -> None:
    settings = settings_of(machine(H100, torch=TORCH_2_15, job=job(recipe="pure-bf16")))
    assert settings["weights"].load == {"dtype": "torch.bfloat16"}
    assert "autocast = contextlib.nullcontext()" in settings["precision"].python
    assert settings["precision"].accelerate == {"mixed_precision": "no"}


def test_cudnn_stays_on_in_the_fast_mode_where_no_bug_is_known() -> None:
    facts = machine(H100, torch=TORCH_2_15)
    assert "enable_cudnn_sdp(False)" in prescribed(facts)
    assert "cudnn" not in prescribed(facts, mode="fast")
    assert "cudnn" not in prescribed(H200, mode="fast")
    masked = H200.with_(job=msgspec.structs.replace(H200.job, attention_mask="padding"))
    assert "enable_cudnn_sdp(False)" in prescribed(masked, mode="fast")


def test_a_variable_is_named_only_where_torch_reads_it() -> None:
    old = msgspec.structs.replace(TORCH_2_11, version="2.9.1+cu128")
    assert "export TORCH_CUDNN_SDPA_DEPRIORITIZED=1" in prescribed(H200, "env")
    assert "DEPRIORITIZED" not in prescribed(machine(H100, torch=old), "env")


def test_the_environment_form_is_read_by_a_shell() -> None:
    text = prescribed(H200, "env", deterministic=True)
    done = subprocess.run(
        ["bash", "-euc", f"{text}\nenv"], capture_output=True, text=True, check=True
    )
    assert "TORCH_CUDNN_SDPA_DEPRIORITIZED=1" in done.stdout.splitlines()


def test_a_verdict_other_than_ready_is_in_the_heading() -> None:
    assert "the verdict on this machine is FIX" in prescribed(MACHINES["smoke_nan"])
    assert "the verdict" not in prescribed(MACHINES["h100_torch2.15"])


def test_an_unknown_machine_gets_no_precision_and_eager_attention() -> None:
    settings = settings_of(MACHINES["nothing_readable"].with_(job=job()))
    assert settings["precision"].python == ()
    assert settings["attn_implementation"].load == {"attn_implementation": '"eager"'}


def test_words_of_a_machine_are_never_statements() -> None:
    gpu = msgspec.structs.replace(H100, name='H100\nimport os\nos._exit(7)  #\'"""')
    torch = msgspec.structs.replace(TORCH_2_15, version="2.15.0\nraise SystemExit(3)")
    for form in ("python", "trainer"):
        tree = ast.parse(prescribed(machine(gpu, torch=torch), form))  # type: ignore[arg-type]
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not names & {"os", "SystemExit"}
    for form in ("env", "accelerate"):
        lines = prescribed(machine(gpu, torch=torch), form).splitlines()  # type: ignore[arg-type]
        assert not [line for line in lines if line.startswith(("import", "os.", "raise"))]


def keywords(text: str) -> dict[str, object]:
    """The arguments of the TrainingArguments call, read without running it."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    call = next(c for c in calls if getattr(c.func, "id", "") == "TrainingArguments")
    return {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}


TRAINERS = [
    prescribed(facts, "trainer", mode, deterministic)
    for facts in (
        H200,
        MACHINES["t4"],
        machine(H100, torch=TORCH_2_15, job=job(checkpointing=True)),
    )
    for mode in MODES
    for deterministic in (False, True)
]
LOAD = """
import dataclasses, json, os, tempfile
os.chdir(tempfile.mkdtemp())
{text}
import torch, transformers
from transformers import Trainer
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def forward(self, x, labels=None):
        return {{"loss": (self.linear(x).squeeze(-1) - labels).square().mean()}}
rows = [{{"x": [1.0] * 4, "labels": 1.0}}] * 4
arguments.max_steps, arguments.report_to, arguments.disable_tqdm = 2, [], True
arguments.save_strategy = "no"
model = Model()
Trainer(model=model, args=arguments, train_dataset=rows).train()
assert all(torch.isfinite(value).all() for value in model.parameters())
known = {{each.name for each in dataclasses.fields(TrainingArguments)}}
print(json.dumps([transformers.__version__, arguments.bf16, sorted(known)]))
"""


def check_trainer_forms(python: str) -> str:
    """Make the real TrainingArguments of the CPU's form; the others name arguments it has."""
    text = prescribed(MACHINES["cpu_only"], "trainer")
    version, bf16, known = json.loads(run(LOAD.format(text=text), python).splitlines()[-1])
    assert bf16 is True
    assert (keywords(text)["warmup_steps"], keywords(text)["max_grad_norm"]) == (100, 1.0)
    for trainer in TRAINERS:
        assert set(keywords(trainer)) <= set(known)
    return str(version)


@pytest.mark.slow
def test_the_trainer_form_loads_in_transformers_5() -> None:
    assert check_trainer_forms(preloaded.python(preloaded.TRAINER)).startswith("5.")


@pytest.mark.slow
def test_the_trainer_form_loads_in_transformers_4(transformers_4: str) -> None:
    assert check_trainer_forms(transformers_4) == "4.57.6"


@pytest.mark.slow
def test_accelerate_loads_its_form(tmp_path: Path) -> None:
    existing = "compute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\nnum_processes: 1\n"
    code = "from accelerate.commands.config.config_args import load_config_from_file\n"
    for name in ("h200_torch2.11", "cpu_only", "t4"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(existing + prescribed(MACHINES[name], "accelerate") + "\n", "utf-8")
        code += (
            f"read = load_config_from_file({str(file)!r})\n"
            "print(read.mixed_precision, read.use_cpu, read.dynamo_config)\n"
        )
    backend = "{'dynamo_backend': 'NO'}"
    rows = ("bf16 False", "bf16 True", "fp16 False")
    printed = run(code, preloaded.python(preloaded.TRAINER)).splitlines()
    assert printed == [f"{row} {backend}" for row in rows]


LAUNCHED = """
from accelerate import Accelerator
import torch
accelerator = Accelerator()
model = torch.nn.Linear(4, 1)
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
with accelerator.autocast():
    output = model(torch.ones(2, 4))
accelerator.backward(output.square().mean())
optimizer.step()
print(accelerator.mixed_precision, accelerator.device, output.dtype)
"""


@pytest.mark.slow
def test_accelerate_launch_trains_with_its_form(tmp_path: Path) -> None:
    file, script = tmp_path / "accelerate.yaml", tmp_path / "script.py"
    existing = "compute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\nnum_processes: 1\n"
    file.write_text(existing + prescribed(MACHINES["cpu_only"], "accelerate") + "\n", "utf-8")
    script.write_text(LAUNCHED)
    launch = f"""
import sys
from accelerate.commands.launch import main
sys.executable = {preloaded.python(preloaded.TRAINER)!r}
sys.argv = ["launch", "--config_file", {str(file)!r}, {str(script)!r}]
main()
"""
    assert run(launch, preloaded.python(preloaded.TRAINER)).split() == [
        "bf16",
        "cpu",
        "torch.float32",
    ]


LOOPS = """
def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))
def loss_of(model, batch):
    return (model(batch).float() - 1).square().mean()
def trained(batches):
    made = model()
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-2)
    skipped = train(made, optimizer, warm_up(optimizer, 2), batches, loss_of)
    after = loss_of(made, batches[0]).item()
    return skipped, loss_of(model(), batches[0]).item() > after, optimizer.param_groups[0]["lr"]
batches = [torch.randn(16, 8, generator=torch.Generator().manual_seed(2))] * 12
results.append(trained(batches))
results.append(trained([*batches[:6], batches[0] * float("nan"), *batches[6:]]))
"""


@pytest.mark.slow
def test_the_loop_trains_and_skips_a_batch_that_is_not_finite() -> None:
    """In fp32, in bf16, and in fp16 with a GradScaler, all on the CPU."""
    code = "import json\nresults = []\n"
    for precision in ("fp32", "bf16", "fp16"):
        facts = on("cpu", "2.13.0", precision=precision)
        text = f"{prescribed(facts, 'loop', deterministic=True)}\n{LOOPS}"
        assert ("unscale_" in text, "GradScaler(" in text) == (True, precision == "fp16")
        code += f"exec({text!r}, {{'results': results}})\n"
    results = json.loads(run(f"{code}print(json.dumps(results))").splitlines()[-1])
    calibrating = results[4][0]  # a new scaler's scale is too high for the first steps
    assert 0 <= calibrating <= 5
    expected = [[0, True, 0.01], [1, True, 0.01]] * 2
    assert results == [*expected, [calibrating, True, 0.01], [1, True, 0.01]]


SEEDS = """
import json
drawn = [torch.rand(()).item(), float(numpy.random.rand()), random.random()]
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index): return random.random() + float(numpy.random.rand())
rows = torch.utils.data.DataLoader(
    Rows(), num_workers=1, shuffle=True, generator=generator, worker_init_fn=seed_worker
)
drawn += torch.cat([batch for batch in rows]).tolist()
print(json.dumps(drawn))
"""


@pytest.mark.slow
def test_every_generator_is_seeded() -> None:
    text = prescribed(MACHINES["cpu_only"], deterministic=True) + SEEDS
    first, second = run(f"exec({text!r}, {{}})\nexec({text!r}, {{}})").splitlines()
    assert first == second


def test_nothing_that_is_prescribed_is_a_leftover() -> None:
    """NUM004 calls a variable a leftover: no form sets one, the Trainer's arguments neither."""
    leftovers = {row.name for row in LEFTOVERS}
    for facts in MACHINES.values():
        for mode in MODES:
            findings = examine(catalog.MACHINE_CHECKS, facts)
            for setting in prescribe(facts, findings, mode, deterministic=True):
                assert not {line.partition("=")[0] for line in setting.env} & leftovers
                assert "full_determinism" not in setting.trainer  # sets CUDA_LAUNCH_BLOCKING


def on(kind: Any, version: str, **fields: Any) -> Facts:
    """A machine of that kind of device, with that torch."""
    system = host(system="Darwin", arch="arm64", macos=(15, 0)) if kind == "mps" else host()
    torch = msgspec.structs.replace(TORCH_2_15, version=version, cuda=None)
    return machine(H100, torch=torch, host=system, job=job(device=kind, **fields))


@pytest.mark.parametrize(
    ("kind", "version", "precision", "autocast"),
    [
        ("mps", "2.4.1", "bf16", False),
        ("mps", "2.5.1", "bf16", False),
        ("mps", "2.6.0", "bf16", True),
        ("mps", "2.7.1", "fp16", False),
        ("mps", "2.8.0", "fp16", True),
        ("cpu", "2.1.2", "bf16", True),
        ("cpu", "2.2.2", "fp16", False),
        ("cpu", "2.3.1", "fp16", True),
    ],
)
def test_autocast_is_prescribed_only_where_torch_supports_it(
    kind: str, version: str, precision: str, autocast: bool
) -> None:
    facts = on(kind, version, precision=precision)
    text = prescribed(facts)
    assert ("autocast = torch.autocast" in text) == autocast
    assert ("needs torch" in text) != autocast
    assert (keywords(prescribed(facts, "trainer")).get(precision) is True) == autocast
    mixed = precision if autocast else "no"
    assert f"mixed_precision: '{mixed}'" in prescribed(facts, "accelerate")


@pytest.mark.parametrize(
    ("version", "scaler"),
    [("2.2.2", "torch.cuda.amp.GradScaler()"), ("2.3.1", 'torch.amp.GradScaler("cuda")')],
)
def test_the_scaler_is_the_one_of_that_torch(version: str, scaler: str) -> None:
    torch = msgspec.structs.replace(TORCH_2_15, version=version)
    assert f"scaler = {scaler}" in prescribed(machine(H100, torch=torch, job=job(precision="fp16")))


def test_the_cublas_workspace_is_set_only_on_a_gpu() -> None:
    old = msgspec.structs.replace(TORCH_2_11, version="2.9.1+cu128")
    assert "CUBLAS_WORKSPACE" in prescribed(machine(H100, torch=old), "env", deterministic=True)
    assert "CUBLAS_WORKSPACE" not in prescribed(on("cpu", "2.9.1"), "env", deterministic=True)


def test_a_backend_that_is_wrong_is_switched_off_by_name() -> None:
    findings = {each.check.code: each for each in examine(catalog.MACHINE_CHECKS, H200)}
    call = "torch.backends.cuda.enable_mem_efficient_sdp(False)"
    both = (Switch.CUDNN_SDP, Switch.MEM_EFFICIENT_SDP)
    old = findings["NUM003"]
    wrong = replace(old.verdict, status=Status.WARN, switches_off=both)
    findings["NUM003"] = replace(old, verdict=wrong)
    settings = {each.name: each for each in prescribe(H200, findings.values())}
    assert settings["memory-efficient attention"].python == (call,)
    assert settings["cuDNN attention"].value == "off"
    assert "memory-efficient attention" not in prescribed(H200, "text").replace("and memory", "")


def test_a_skipped_attention_check_is_the_reason_for_the_implementation() -> None:
    facts = MACHINES["mi300_rocm"]
    skipped = next(f for f in examine(catalog.MACHINE_CHECKS, facts) if f.check.code == "NUM003")
    setting = settings_of(facts)["attn_implementation"]
    assert setting.load == {"attn_implementation": '"sdpa"'}
    assert skipped.verdict.summary in setting.why


def test_control_characters_in_a_gpu_name_do_not_break_the_script() -> None:
    gpu = msgspec.structs.replace(H100, name="H\x00\x1b100")
    ast.parse(prescribed(machine(gpu, torch=TORCH_2_15)))
