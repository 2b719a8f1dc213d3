"""Reports of every format are redacted."""

from __future__ import annotations

import functools
import re
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from filled import FAMILIES, filled_facts
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import machines
from recorded_parts import H100, TORCH_2_15, host, job, machine
from reports import about, finding, judged
from reports import report as report_with

from doctor import catalog
from doctor._util.records import Unknown
from doctor._util.text_fields import map_texts
from doctor.cli.options import ConfigFlags, OutputFlags
from doctor.cli.requested_output import requested_output
from doctor.cli.triage import triage
from doctor.facts.host import Host
from doctor.facts.machine import Examination
from doctor.facts.training import Smoke
from doctor.judge.check import Owner, Status
from doctor.judge.engine import examine
from doctor.judge.place import Change, Place
from doctor.report.formats.table import FORMATS, RENDERERS
from doctor.report.lint import text as lint_text
from doctor.report.names import EXEMPT, names_of, pseudonyms
from doctor.report.redaction import HIDDEN, redact
from doctor.report.report import Report

ENV = {
    "LD_PRELOAD": "/srv/teams/apollo/libtrace.so",
    "TORCH_LOGS": "+dynamo,apollo_module",
    "CUDA_INJECTION64_PATH": "/home/maria/apollo tools/inject.so",
    "CUDA_LAUNCH_BLOCKING": "1",
    "NCCL_DEBUG": "INFO",
    "CUDA_VISIBLE_DEVICES": "GPU-00000000-0000-4000-8000-000000000000",
}
NAME = "gpu-node-17.cluster.example"


def report_of(**fields: object) -> Report:
    described = host(name=NAME, home="/data/people/maria", env=ENV)
    facts = machine(H100, torch=TORCH_2_15, host=described, job=job(**fields))
    return Report(facts, examine(catalog.MACHINE_CHECKS, facts))


def saying(text: str, **fields: object) -> Report:
    """A report of a machine with one finding that quotes something."""
    said = finding("NUM004", Status.FAIL, text, commands=(text,), owner=Owner.MACHINE, returns=True)
    return replace(report_of(**fields), findings=(said,))


@pytest.mark.parametrize("format", FORMATS)
def test_no_format_contains_values_names_or_home_directories(format: str) -> None:
    original = report_of(checkpoint="/home/maria/runs/model.safetensors")
    quoted = saying(f"died on {NAME} (gpu-node-17) in /data/people/maria/x: +dynamo,apollo_module")
    report = replace(
        original, findings=(*original.findings, *quoted.findings), replayed="/root/f.json"
    )
    text = FORMATS[format](redact(report))
    for secret in ("apollo", "maria", "node-17", "/root"):
        assert secret not in text
    unredacted = FORMATS[format](redact(report, keep_names=True))
    assert "apollo" in unredacted or format in ("nagios", "sarif", "gitlab")


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("CUDA_LAUNCH_BLOCKING=1 (waits)", "CUDA_LAUNCH_BLOCKING=1 (waits)"),
        ("NCCL_DEBUG=INFO (talks)", "NCCL_DEBUG=INFO (talks)"),
        ("LD_PRELOAD=/srv/teams/apollo/libtrace.so (x)", f"LD_PRELOAD={HIDDEN} (x)"),
        ("LD_PRELOAD=/srv/teams/apollo/... (x)", f"LD_PRELOAD={HIDDEN} (x)"),
        ("cuDNN in /srv/teams/apollo/libtrace.so", "cuDNN in /srv/teams/apollo/libtrace.so"),
        ("bad module +dynamo,apollo_module", f"bad module {HIDDEN}"),
        ("in /home/maria/.cache and /home/maria", "in ~/.cache and ~"),
        ("'/Users/maria/x', /root/.cache", "'~/x', ~/.cache"),
        ("/data/people/maria/a", "~/a"),
        ("/data/home/anna /rootfs /homes/x", "/data/home/anna /rootfs /homes/x"),
        ("/scratch/maria/x, maria_2", "/scratch/[user]/x, maria_2"),
        (f"connect to {NAME}:29500 failed", "connect to [host]:29500 failed"),
        ("GPU-NODE-17 is not gpu-node-170", "[host] is not gpu-node-170"),
        ("401 for hf_abcdefghijklmnopqrstuvwxyz", f"401 for {HIDDEN}"),
        ("https://user:pass@host/x", f"https://{HIDDEN}@host/x"),
        ("403 for s3://b/x?X-Amz-Signature=ab1&a=b, see", f"403 for s3://b/x?{HIDDEN} see"),
        ("is it so? https://host/x", "is it so? https://host/x"),
    ],
)
def test_redaction_of_a_text(text: str, redacted: str) -> None:
    (result,) = redact(saying(text)).findings
    assert result.verdict.summary == redacted
    assert result.verdict.commands == (redacted,)


def test_no_redact_still_removes_secrets() -> None:
    text = f"{NAME} /home/maria LD_PRELOAD=/srv/teams/apollo/libtrace.so"
    (result,) = redact(saying(f"{text} ghp_{'a' * 36}"), keep_names=True).findings
    assert result.verdict.summary == f"{text} {HIDDEN}"


def test_the_facts_of_a_report_are_redacted() -> None:
    facts = redact(report_of(output_dir="/home/maria/out")).facts
    assert isinstance(facts.host, Host)
    assert (facts.host.name, facts.host.home) == ("", "")
    assert facts.host.env["LD_PRELOAD"] == HIDDEN
    assert facts.host.env["CUDA_VISIBLE_DEVICES"] == ENV["CUDA_VISIBLE_DEVICES"]
    assert facts.job.output_dir == "~/out"


def test_a_host_name_equal_to_a_literal_of_the_facts_changes_no_fact() -> None:
    recorded = machines()["smoke_segfault"]
    smoke = judged(recorded).facts.smoke
    assert isinstance(smoke, Smoke)
    for how in {stage.ended.how for stage in smoke.stages}:
        named = recorded.with_(host=host(name=how, home="/"))
        assert judged(named).facts.smoke == smoke


@pytest.mark.parametrize("name", machines())
def test_redaction_changes_no_verdict(name: str) -> None:
    facts = machines()[name]
    report = Report(facts, examine(catalog.MACHINE_CHECKS, facts))
    redacted = redact(report)
    assert redacted.outcome is report.outcome
    assert (redacted.exit_code, redacted.counts) == (report.exit_code, report.counts)
    assert redacted.facts.job_gpus == report.facts.job_gpus
    assert redact(redacted) == redacted


def test_a_command_with_the_home_folder_can_still_be_run() -> None:
    python = replace(finding("TOR001", Status.FAIL), python="/home/maria/my env/bin/python")
    command = replace(python.verdict, commands=("python -m pip install torch",))
    report = replace(report_of(), findings=(replace(python, verdict=command),))
    (line,) = redact(report).findings[0].commands
    assert line == "~/'my env/bin/python' -m pip install torch"


@pytest.mark.parametrize("name", [*sorted(EXEMPT), "a", "7", "10"])
def test_an_exempt_name_changes_no_text(name: str) -> None:
    facts = machines()["two_cudnns"]
    called = facts.with_(host=msgspec.structs.replace(facts.host, name=name))
    assert judged(called).findings == judged(facts).findings


def test_few_names_are_exempt() -> None:
    assert len(EXEMPT) <= 20


OWN_WORDS = ("train", "data", "model", "driver", "torch", "checks", "steps", "failed", "loss")


@pytest.mark.parametrize("name", ["two_cudnns", "smoke_segfault", "fp32_checkpoint"])
def test_a_machine_called_like_a_word_of_the_doctor_shreds_no_report(name: str) -> None:
    """The words of the doctor's texts stay; what the facts quote may change."""
    facts = machines()[name]
    report = Report(facts, examine(catalog.MACHINE_CHECKS, facts))
    findings = redact(report).findings
    text = str(msgspec.to_builtins(facts))
    for word in OWN_WORDS:
        called = facts.with_(host=msgspec.structs.replace(facts.host, name=word, user=word))
        redacted = redact(replace(report, facts=called)).findings
        pairs = zip(findings, redacted, strict=True)
        changed = [one for one, other in pairs if one.verdict != other.verdict]
        assert not changed or re.search(rf"\b{word}\b", text), word
        assert len(changed) < 10, [word, *(each.verdict.summary for each in changed)]


IN_TEXTS = (
    "connect to {}:29500 failed", "on {}: no", "/scratch/{}/runs", "{}@login", "({})", "'{}'",
    "died on {}.", "{}.other.example refused", "host={}",
)  # fmt: skip
HOSTS = (
    *("train-01", "gpu-worker-03", "model-server-1", "compute-12", "llama-train-2", "gpu-01"),
    *("ip-10-0-0-12", "maria", "optimi", "a1b2c3d4e5f6", "train", "model", "driver", "loss"),
)
RECORDED = str(msgspec.to_builtins(machine(H100, torch=TORCH_2_15, host=host(), job=job())))
IN_PATHS = set(re.findall(r"[\w-]+", " ".join(re.findall(r"/[\w/.-]+", RECORDED))))
"""Directories of the machine: a name that is one of them is redacted there, too."""
NAMES = st.one_of(
    st.sampled_from(HOSTS),
    st.from_regex(r"[a-z][a-z0-9]{1,9}(-[a-z0-9]{1,6}){0,2}", fullmatch=True),
).filter(lambda name: name not in EXEMPT | IN_PATHS)


WHERE = {
    "host": {"name": "{}.cluster.example", "home": "/"},
    "user": {"user": "{}", "name": "", "home": "/"},
    "home": {"home": "/data/people/{}", "name": ""},
    "domain": {"name": "x.{}", "home": "/"},
}


def drawn(report: Report) -> dict[str, str]:
    """Every format of a redacted report, without the word of chance that github needs."""
    texts = {format: render(report) for format, render in RENDERERS.items()}
    texts["github"] = re.sub(r"\b[0-9a-f]{32}\b", "", texts["github"])
    return texts


def rendered(name: str, where: str) -> dict[str, str]:
    """The reports of a machine of that name whose facts quote it, by format."""
    name = f"{name}.example" if where == "domain" else name
    quoted = " ".join(IN_TEXTS).replace("{}", name)
    asked = {field: text.format(name) for field, text in WHERE[where].items()}
    facts = machine(H100, torch=TORCH_2_15, host=host(**asked), job=job())
    facts = facts.with_(
        smoke=Unknown(reason=quoted),
        torch=msgspec.structs.replace(TORCH_2_15, cudnn_error=quoted),
        examination=Examination(started="2026-01-31T09:05:00Z", command=("doctor", quoted)),
    )
    examined = examine(catalog.MACHINE_CHECKS, facts)
    place = Place(path=f"/x/{name}/a.py", line=3, text=quoted, message=quoted)
    placed = finding("SCR101", Status.FAIL, quoted, places=(place,))
    return drawn(
        redact(Report(facts, (*examined, *saying(quoted).findings, placed), config=quoted))
    )


neutral = functools.cache(functools.partial(rendered, "zzyzx-4711"))


@pytest.mark.parametrize("where", WHERE)
@settings(max_examples=8)
@given(name=NAMES)
def test_no_report_depends_on_the_name_of_its_machine(where: str, name: str) -> None:
    """So no name is printed, and no word of the doctor is lost, whatever the name is."""
    assert rendered(name, where) == neutral(where)


def rendered_here(subject: str, name: str) -> dict[str, str]:
    """The reports of facts whose texts all quote the name of the machine that reads them."""
    quoted = " ".join(IN_TEXTS).replace("{}", name)
    change = {**dict.fromkeys(("product", "identifier", "node"), str), "arguments": tuple}
    facts = map_texts(filled_facts()[subject], {**change, "text": lambda text: f"{text} {quoted}"})
    report = Report(facts, examine(catalog.of_families(*FAMILIES), facts))
    return drawn(redact(report, here=host(home="/", name=f"{name}.cluster.example")))


@pytest.mark.parametrize("subject", filled_facts())
def test_no_report_of_any_subject_names_who_reads_it(subject: str) -> None:
    neutral = rendered_here(subject, "zzyzx-4711")
    assert not [format for format, text in neutral.items() if "zzyzx" in text]
    assert rendered_here(subject, "gpu-worker-03") == neutral


@given(name=NAMES)
def test_a_name_in_a_text_is_redacted_as_a_whole_word(name: str) -> None:
    names = names_of([host(name=name, home="/")])
    for text in IN_TEXTS:
        assert names.redact(text.format(name.upper())) == text.format("[host]")
    for text in (f"x{name}", f"{name}_x", f"{name}-x", f"{name}.py", f"net.{name}"):
        assert names.redact(text) == text


def test_a_domain_and_a_home_name_somebody() -> None:
    names = names_of([host(name="n1.lab.example", home="/data/people/maria")])
    assert names.redact("n2.lab.example, /x/maria/y, n1, N1.lab.example") == (
        "n2.lab.example, /x/[user]/y, [host], [host]"
    )
    assert names.redact("at lab.example") == "at [domain]"


def test_names_of_this_machine_are_redacted_in_what_it_reads() -> None:
    report = replace(saying("on reader-7 of apollo"), facts=machine(H100, torch=TORCH_2_15))
    here = host(name="reader-7", user="apollo", home="/")
    assert redact(report, here=here).findings[0].verdict.summary == "on [host] of [user]"


NODES = """\
[rank3]:quux-10:4711:4802 [3] NCCL WARN Net : Connection refused by peer quux-2
srun: error: quux-2: task 3: Killed
  host      : quux-11
  rank      : 7 (local_rank: 3)
torch.distributed.DistNetworkError: The client socket has failed to connect to [quux-10]:29500
"""


def test_names_of_nodes_in_a_log_become_pseudonyms_if_asked(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(NODES)
    report = triage([str(log)], {}, ConfigFlags(no_config=True))
    shown, hidden = redact(report), redact(report, hide_nodes=True)
    for format, render in FORMATS.items():
        with about(format):
            assert "quux-" not in render(hidden)
            assert ("node-0" in render(hidden)) is ("quux-" in render(shown))
    assert "quux-" in FORMATS["plain"](shown)


@pytest.mark.parametrize(("redact", "hidden"), [(None, False), (True, True), (False, False)])
def test_the_flag_redact_hides_nodes(redact: bool | None, hidden: bool) -> None:
    assert requested_output(OutputFlags(redact=redact)).hide_nodes is hidden


def test_nodes_get_stable_pseudonyms() -> None:
    names = pseudonyms(["gpu-10", "gpu-2", "gpu-10", "GPU-2"])
    assert names.redact("gpu-2 waits for gpu-10") == "node-01 waits for node-02"


@pytest.mark.parametrize(
    ("home", "text", "redacted"),
    [
        ("/data/people/maria/", "/data/people/maria/x", "~/x"),
        ("/", "/dev/shm", "/dev/shm"),
        ("/dev/shm", "/dev/shm has 64 MiB", "/dev/shm has 64 MiB"),
    ],
)
def test_a_home_directory_is_redacted_and_system_paths_are_not(
    home: str, text: str, redacted: str
) -> None:
    report = replace(saying(text), facts=machine(H100, torch=TORCH_2_15, host=host(home=home)))
    assert redact(report).findings[0].verdict.summary == redacted


@pytest.mark.parametrize("name", ["ab " * 46_000, "h." * 70_000])
def test_no_host_is_called_by_more_than_255_characters(name: str) -> None:
    report = replace(saying("x"), facts=machine(H100, torch=TORCH_2_15, host=host(name=name)))
    assert all(len(known) <= 255 for known in names_of((host(name=name),)).replacements)
    assert redact(report).facts.host.name == ""  # type: ignore[union-attr]
    assert pseudonyms([name, "gpu-1"]).replacements == {"gpu-1": "node-01"}


def test_an_edit_that_redaction_changes_is_not_offered() -> None:
    def place(text: str) -> Place:
        change = Change(line=1, column=1, end_line=1, end_column=9, text=text)
        return Place(path="train.py", line=1, text=text, edits=(change,))

    places = place('password = "hunter2abc"'), place("x = 1")
    made = finding("SCR101", Status.FAIL, places=places)
    for keep_names in (False, True):
        (found,) = redact(report_with(made), keep_names=keep_names).findings
        assert found.places[0].edits == ()
        assert found.places[1].edits == places[1].edits
        assert "hunter2" not in repr(found)


def test_hostile_names_and_values_are_text_and_take_no_time() -> None:
    env = {"A\\1\\g<9>": "what nobody knows", "LD_PRELOAD": "y" * 1_000_000}
    long = host(name="h" * 1_000_000, home="/data/" + "x" * 1_000_000, env=env)
    report = replace(
        saying("A\\1\\g<9>=what nobody knows"), facts=machine(H100, torch=TORCH_2_15, host=long)
    )
    start = time.process_time()
    assert redact(report).findings[0].verdict.summary == f"A\\1\\g<9>={HIDDEN}"
    assert time.process_time() - start < 5


def test_a_lint_shows_no_secret_in_a_source_line_or_a_message() -> None:
    secret = "password = 'hunter2abc'"
    place = Place(path="a.py", line=3, column=1, text=secret, message=f"set by {secret}")
    made = report_with(finding("SCR101", Status.FAIL, places=(place,)))
    text = lint_text(made, 1, "normal", "console")
    assert "hunter2" not in text + lint_text(made, 1, "normal", "plain")
    assert text.count(HIDDEN) == 2
    assert "^" not in text  # the columns are those of the line with the secret
