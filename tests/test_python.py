"""`preflight_doctor` as a library: what it returns, raises, prints and imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest
from recorded import machines

import preflight_doctor
from doctor.cli.flag_groups import set_flags
from doctor.cli.job_options import JobFlags, RunFlags, TrainingFlags
from doctor.facts.facts import Facts
from doctor.report.formats.table import FORMATS

LOG = "step 1 loss 2.0\nRuntimeError: CUDA error: an illegal memory access was encountered\n"


def test_every_name_is_there_and_nothing_else_is() -> None:
    for name in preflight_doctor.__all__:
        assert getattr(preflight_doctor, name)
    with pytest.raises(AttributeError, match="no attribute 'doctor'"):
        preflight_doctor.doctor  # noqa: B018


def test_importing_it_imports_nothing_of_the_doctor() -> None:
    code = (
        "import sys, preflight_doctor; "
        "print([n for n in sys.modules if n.split('.')[0] in ('doctor', 'typer', 'msgspec')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_settings_are_the_flags_of_run() -> None:
    flags = [set_flags_of(group) for group in (TrainingFlags, JobFlags, RunFlags)]
    assert set(get_type_hints(preflight_doctor.Settings)) == set().union(*flags)


def set_flags_of(group: type) -> set[str]:
    assert set_flags(group()) == {}
    return set(get_type_hints(group))


def test_facts_are_judged_as_the_command_judges_them() -> None:
    report = preflight_doctor.judge(machines()["row_remap_failed"])
    assert (report.outcome, report.exit_code) == ("return", 1)
    assert report.verdict_line.startswith("RETURN: GPU003")
    selected = preflight_doctor.judge(report.facts, only="MEM", skip=["MEM001"])
    assert [finding.check.code for finding in selected.findings] == ["MEM002", "MEM003"]


def test_a_job_file_is_read_only_where_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "doctor.toml"
    file.write_text('[[ignore]]\ncode = "GPU003"\nreason = "known"\n')
    monkeypatch.chdir(tmp_path)
    facts = machines()["row_remap_failed"]
    assert preflight_doctor.judge(facts).outcome == "return"
    assert preflight_doctor.judge(facts, config=file).outcome == "ready"


@pytest.mark.parametrize("format", FORMATS)
def test_a_report_renders_in_every_format_without_the_hosts_name(format: str) -> None:
    facts = machines()["row_remap_failed"]
    named = facts.with_(examination=None)
    text = preflight_doctor.render(preflight_doctor.judge(named), format)
    assert ("GPU003" in text) == (format != "gitlab")  # which has findings in files alone


def test_scripts_have_findings_with_places_and_edits(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        'import torch\nimport torch.nn.functional as F\nscaler = torch.amp.GradScaler("cuda")\n'
        "optimizer = torch.optim.SGD(model.parameters())\nfor x in loader:\n"
        "    optimizer.zero_grad()\n    torch.log(F.softmax(x, dim=1)).mean().backward()\n"
    )
    report = preflight_doctor.lint(script)
    (place,) = [place for finding in report.findings for place in finding.places if place.edits]
    assert (place.path, place.line) == (str(script), 7)
    assert place.edits[0].text == "F.log_softmax(x, dim=1)"
    warned = report.counts["warn"] + report.counts["fail"]
    assert warned
    assert preflight_doctor.lint([str(script)], only=["SCR"], fail_on="warn").exit_code == 1


def test_a_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(LOG)
    report = preflight_doctor.triage(log)
    assert report.outcome == "fix"
    assert report.facts.examination
    assert report.facts.examination.command == ("preflight_doctor.triage()",)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: preflight_doctor.run(gpus="eight"), "gpus: Expected `int"),
        (lambda: preflight_doctor.run(hf="a", model="b.py:c"), "model cannot be combined with hf"),
        (lambda: preflight_doctor.run(only="NOPE"), "NOPE"),
        (lambda: preflight_doctor.scan("/nonexistent"), "/nonexistent does not exist"),
        (lambda: preflight_doctor.lint("/nonexistent.py"), "/nonexistent.py"),
        (lambda: preflight_doctor.triage("/nonexistent.log"), "/nonexistent.log"),
        (lambda: preflight_doctor.judge(machines()["t4"], config="/no.toml"), "/no.toml"),
        (lambda: preflight_doctor.run(python="/nonexistent"), "python /nonexistent: "),
        (lambda: preflight_doctor.run(checkpoint="/nonexistent"), "checkpoint /nonexistent "),
        (lambda: preflight_doctor.scan(".", baseline="/nonexistent"), "baseline /nonexistent "),
        (
            lambda: preflight_doctor.render(preflight_doctor.judge(machines()["t4"]), "pdf"),
            "'pdf' is no format",
        ),
    ],
)
def test_a_mistake_of_the_caller_is_a_user_error(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(preflight_doctor.UserError) as raised:
        call()
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "--" not in str(raised.value)


def test_an_unknown_setting_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="'gpu'"):
        preflight_doctor.run(gpu=8)  # type: ignore[call-arg]


@pytest.mark.slow
def test_nothing_is_printed_or_logged(tmp_path: Path) -> None:
    """Everything, in a process of its own, whose root logger prints."""
    import torch
    from safetensors.torch import save_file

    save_file({"norm.weight": torch.ones(4)}, str(tmp_path / "model.safetensors"))
    (tmp_path / "train.log").write_text(LOG)
    (tmp_path / "train.py").write_text("import torch\n")
    code = """
import json, logging, sys
logging.basicConfig(level=logging.DEBUG)
import preflight_doctor as doctor
reports = [
    doctor.run(device="cpu", quick=True, only=["SMK", "TOR"]),
    doctor.judge(doctor.collect(device="cpu", smoke=False)),
    doctor.scan("model.safetensors"),
    doctor.lint("train.py"),
    doctor.triage("train.log"),
]
with open("report.json", "w") as file:
    json.dump([[r.outcome, r.facts.subject, r.exit_code] for r in reports], file)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "--api-key", "sk-0123456789abcdefghij"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    rows = json.loads((tmp_path / "report.json").read_text())
    assert [row[1] for row in rows] == ["machine", "machine", "checkpoint", "scripts", "log"]
    assert rows[0][::2] == ["ready", 0]
    assert rows[4][::2] == ["fix", 1]


def run_pytest(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text('pytest_plugins = ["preflight_doctor.pytest_plugin"]\n')
    (folder / "test_it.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return subprocess.run(
        [*command, str(folder)], cwd=folder, capture_output=True, text=True, check=False
    )


FIXTURES = """
import pytest

@pytest.fixture(scope="session")
def preflight_settings():
    return {SETTINGS}

def test_on_the_gpu(preflight):
    assert preflight.outcome == "ready"

def test_of_the_report(preflight_report):
    assert preflight_report.findings
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "outcome"),
    [
        ('{"device": "cpu", "quick": True, "smoke": False}', "2 passed"),
        ('{"device": "cpu", "quick": True, "smoke": False, "params": 10**13}', "1 passed, 1 error"),
    ],
)
def test_a_fixture_stops_the_tests_of_a_runner_that_is_not_ready(
    tmp_path: Path, settings: str, outcome: str
) -> None:
    done = run_pytest(tmp_path, FIXTURES.replace("{SETTINGS}", settings))
    assert outcome in done.stdout, done.stdout
    assert ("Failed: FIX: " in done.stdout) == ("error" in outcome)
    assert "pytest_plugin.py" not in done.stdout  # no traceback through this project


@pytest.mark.slow
def test_a_trainer_starts_only_on_a_machine_that_is_ready(tmp_path: Path) -> None:
    import torch
    from transformers import Trainer, TrainingArguments

    from preflight_doctor.callback import PreflightCallback

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(2, 1)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": self.linear(x).mean()}

    def trainer(**settings: object) -> Trainer:
        arguments = TrainingArguments(
            str(tmp_path), use_cpu=True, max_steps=1, report_to=[], disable_tqdm=True
        )
        callback = PreflightCallback(smoke=False, **settings)  # type: ignore[arg-type]
        data = [{"x": torch.ones(2)}] * 8
        return Trainer(Model(), arguments, train_dataset=data, callbacks=[callback])

    assert trainer().train().global_step == 1
    with pytest.raises(preflight_doctor.NotReadyError, match="FIX: ") as raised:
        trainer(params=10**13).train()
    assert isinstance(raised.value.report.facts, Facts)
    assert raised.value.report.facts.job.device == "cpu"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "dtype", "expected"),
    [
        ({}, "float32", ("fp32", None)),
        ({"bf16": True}, "float32", ("bf16", None)),
        ({}, "bfloat16", ("bf16", "pure-bf16")),
    ],
)
def test_the_callback_examines_the_precision_of_the_training(
    tmp_path: Path, arguments: dict[str, bool], dtype: str, expected: tuple[str, str | None]
) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments

    from preflight_doctor import callback

    config = LlamaConfig(
        vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    model = LlamaForCausalLM(config).to(getattr(torch, dtype))
    settings = callback._settings(
        TrainingArguments(str(tmp_path), use_cpu=True, report_to=[], **arguments), model
    )
    assert (settings["precision"], settings.get("recipe")) == expected


@pytest.mark.slow
def test_the_callback_leaves_a_training_alone_whose_device_it_cannot_examine(
    tmp_path: Path,
) -> None:
    from types import SimpleNamespace

    from preflight_doctor.callback import PreflightCallback

    arguments = SimpleNamespace(
        device=SimpleNamespace(type="xpu"),
        bf16=True,
        fp16=False,
        output_dir=tmp_path,
        per_device_train_batch_size=8,
    )
    state = SimpleNamespace(is_local_process_zero=True)
    with pytest.warns(UserWarning, match="no checks for xpu"):
        PreflightCallback().on_train_begin(arguments, state, None)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"params": "8Q"}, "params: '8Q' is not a count"), ({"budget": -5.0}, "budget: ")],
)
def test_a_wrong_value_is_a_usage_error(settings: dict[str, object], words: str) -> None:
    with pytest.raises(preflight_doctor.UserError, match=words):
        preflight_doctor.collect(**settings)  # type: ignore[arg-type]
