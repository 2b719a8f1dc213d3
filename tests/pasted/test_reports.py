"""Real reports of others, and the forms in which reports are pasted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from doctor._util.records import Unknown
from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.facts.facts import Facts, decode, encode
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Torch
from doctor.facts.machine import Driver, Gpu
from doctor.judge.check import Finding, Status
from doctor.pasted import read
from doctor.pasted.reading import ReportError

CORPUS = Path(__file__).parents[1] / "corpus" / "reports.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]
UNDECIDED = {
    "cpu_wheel_windows": ("TOR002", "the CPU only"),
    "windows_cpu_dev": ("TOR002", "the CPU only"),
    "no_cuda_amd_laptop": ("GPU001", "No CUDA"),
}
"""Reports that do not tell whether there is a GPU that should be used: unknown, and why."""


def findings(text: str) -> dict[str, Finding]:
    return {each.check.code: each for each in findings_of(facts_of_text(text, "report"))}


def test_gpus_that_nvidia_smi_lists_are_named_where_torch_is_not_in_the_report() -> None:
    text = (
        "| NVIDIA-SMI 590.48.01    Driver Version: 590.48.01   CUDA Version: 13.1 |\n"
        "|   0  NVIDIA H200    On  |   00000009:01:00.0 Off |                    0 |\n"
        "| N/A   23C    P0    92W /  700W |   3MiB / 143771MiB |      0%      Default |\n"
    )
    counted = findings(text)["GPU001"]
    assert counted.status is Status.UNKNOWN
    assert counted.verdict.summary.startswith("GPUs: NVML 1 (NVIDIA H200)")


def problems(text: str) -> set[str]:
    return {code for code, each in findings(text).items() if each.is_problem}


def by_label(*labels: str) -> Any:
    rows = [row for row in ROWS if row["label"] in labels]
    return pytest.mark.parametrize("row", rows, ids=lambda row: row["id"])


@by_label("healthy", "unknown")
def test_a_machine_that_its_owner_used_gets_no_complaint(row: dict[str, Any]) -> None:
    assert problems(row["text"]) == set()


@by_label("cause")
def test_the_cause_that_the_thread_names_is_named(row: dict[str, Any]) -> None:
    if row["id"] in UNDECIDED:
        code, words = UNDECIDED[row["id"]]
        assert findings(row["text"])[code].status is Status.UNKNOWN
        assert words in findings(row["text"])[code].verdict.summary
        return
    assert problems(row["text"]) & set(row["codes"])


@by_label("healthy", "unknown", "cause")
def test_a_row_tells_its_source_and_its_facts_survive_a_file(row: dict[str, Any]) -> None:
    assert row["source"].startswith("https://github.com/")
    assert row["why"]
    facts = facts_of_text(row["text"], row["id"])
    assert decode(encode(facts)) == facts


ENV = """Collecting environment information...
PyTorch version: 2.9.1+cu128
Is debug build: False
CUDA used to build PyTorch: 12.8
ROCM used to build PyTorch: N/A

OS: Ubuntu 24.04.2 LTS (x86_64)
Python version: 3.12.3 (main, Feb  4 2025, 14:48:35) [GCC 13.3.0] (64-bit runtime)
Python platform: Linux-6.8.0-52-generic-x86_64-with-glibc2.39
Is CUDA available: True
GPU models and configuration:
GPU 0: NVIDIA A100-SXM4-80GB
GPU 1: NVIDIA A100-SXM4-80GB

Nvidia driver version: 570.86.15

CPU:
CPU(s):                             224
"""


def facts(text: str) -> Facts:
    return facts_of_text(text, "report")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
        lambda text: f"My training hangs:\n\n```text\n{text}```\n\nWhat can I do? loss: nan\n",
        lambda text: re.sub(r"(?m)^", "    ", text),
        lambda text: "".join(f"\x1b[32m{line}\x1b[0m\n" for line in text.splitlines()),
        lambda text: text.replace("_", "&#95;"),
        lambda text: text + "\n" + text.replace("2.9.1", "1.0.0").replace("A100", "V100"),
    ],
    ids=["plain", "crlf", "mail", "issue", "indented", "colour", "html", "two"],
)
def test_collect_env_is_read_in_every_form_it_is_pasted_in(change: Any) -> None:
    read_facts = facts(change(ENV))
    assert isinstance(read_facts.torch, Torch)
    assert isinstance(read_facts.host, Host)
    assert isinstance(read_facts.driver, Driver)
    assert isinstance(read_facts.cuda, Cuda)
    assert (read_facts.torch.version, read_facts.torch.cuda) == ("2.9.1+cu128", "12.8")
    assert (read_facts.host.system, read_facts.host.release) == ("Linux", "6.8.0-52-generic")
    assert (read_facts.host.arch, read_facts.host.cpus) == ("x86_64", 224)
    assert (read_facts.driver.version, read_facts.driver.cuda_version) == ("570.86.15", 12080)
    assert [gpu.name for gpu in read_facts.cuda.gpus] == ["NVIDIA A100-SXM4-80GB"] * 2
    assert read_facts.cuda.gpus[0].capability == (8, 0)


def test_what_the_report_does_not_tell_is_unknown_and_blocks_nothing() -> None:
    judged = findings(ENV)
    assert {judged[code].status for code in ("NUM004", "DSK002", "TOR004")} == {Status.UNKNOWN}
    assert judged["GPU003"].verdict.summary == "not in the report"
    assert judged["SMK001"].status is Status.UNKNOWN
    assert judged["DRV002"].status is Status.PASS


CPU_BOX = ENV.replace("True", "False").replace("570.86.15", "No CUDA")
CPU_BOX = re.sub(r"configuration:\nGPU 0.*\nGPU 1.*\n", "configuration: No CUDA\n", CPU_BOX)


@pytest.mark.parametrize(
    ("text", "red"),
    [
        (CPU_BOX, set()),
        (CPU_BOX.replace("12.8", "None").replace("+cu128", "+cpu"), set()),
        (
            CPU_BOX.replace("OS: Ubuntu 24.04.2 LTS (x86_64)", "OS: macOS 14.4 (arm64)")
            .replace("12.8", "None")
            .replace("+cu128", "")
            .replace("Linux-6.8.0-52-generic-x86_64-with-glibc2.39", "macOS-14.4-arm64-arm-64bit"),
            set(),
        ),
        (CPU_BOX.replace("No CUDA", "Could not collect"), {"GPU001"}),
        (
            ENV.replace("Available: True", "available: False").replace(": True", ": False"),
            {"GPU001"},
        ),
        ("No devices were found\n", {"GPU001"}),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            {"DRV001"},
        ),
        ("Failed to initialize NVML: Unknown Error\n", {"DRV001"}),
    ],
    ids=range(8),
)
def test_a_machine_without_a_gpu_is_no_fault_and_one_that_loses_it_is(
    text: str, red: set[str]
) -> None:
    assert problems(text) == red


QUERY = """
==============NVSMI LOG==============

Timestamp                                 : Sat May  9 03:38:32 2026
Driver Version                            : 580.126.09
CUDA Version                              : 13.0

Attached GPUs                             : 2
GPU 00000000:00:04.0
    Product Name                          : NVIDIA A100-SXM4-40GB
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    GPU UUID                              : GPU-5428af19-1e82-a38c-ee42-cdd3ad745b7e
    GPU Recovery Action                   : None
    Clocks Event Reasons
        Idle                              : Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
    FB Memory Usage
        Total                             : 40960 MiB
        Reserved                          : 520 MiB
        Used                              : 3 MiB
    BAR1 Memory Usage
        Total                             : 65536 MiB
    Compute Mode                          : Default
    ECC Mode
        Current                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable            : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
        Aggregate
            DRAM Uncorrectable            : 7
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
    Temperature
        GPU Current Temp                  : 31 C

GPU 00000000:00:05.0
    Product Name                          : NVIDIA A100-SXM4-40GB
    GPU UUID                              : GPU-00000000-1e82-a38c-ee42-cdd3ad745b7e
    Clocks Event Reasons
        HW Slowdown                       : Not Active
    FB Memory Usage
        Total                             : 40960 MiB
        Used                              : 30000 MiB
"""


ONE = QUERY[: QUERY.index("GPU 00000000:00:05.0")]


def first_gpu(text: str) -> Gpu:
    gpus = facts(text).gpus
    assert isinstance(gpus, tuple)
    return gpus[0]


def test_nvidia_smi_q_is_read_as_text() -> None:
    gpu = first_gpu(QUERY)
    assert gpu.uuid == "GPU-5428af19-1e82-a38c-ee42-cdd3ad745b7e"
    assert (gpu.memory_total, gpu.memory_used) == (40960 << 20, 3 << 20)
    assert (gpu.ecc, gpu.uncorrected, gpu.corrected) == (True, 0, 0)
    assert (gpu.remap_pending, gpu.remap_failed, gpu.mig) == (False, False, False)
    assert (gpu.compute_mode, gpu.recovery_action, gpu.persistence) == (0, 0, True)
    judged = findings(QUERY)
    assert judged["GPU004"].status is Status.PASS
    assert judged["GPU003"].status is Status.UNKNOWN  # the second GPU tells nothing of errors
    assert "30000 MiB" in judged["GPU002"].verdict.summary


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("DRAM Uncorrectable            : 0", "DRAM Uncorrectable            : 2", "GPU003"),
        ("        Pending                           : No", "        Pending  : Yes", "GPU003"),
        ("Remapping Failure Occurred        : No", "Remapping Failure Occurred : Yes", "GPU003"),
        ("GPU Recovery Action                   : None", "GPU Recovery Action : Reset", "GPU003"),
        ("HW Thermal Slowdown           : Not", "HW Thermal Slowdown           :", "GPU004"),
        ("Used                              : 3 MiB", "Used : GPU is lost", "GPU001"),
        ("Compute Mode                          : Default", "Compute Mode : Prohibited", "GPU001"),
    ],
)
def test_a_fault_in_nvidia_smi_q_is_named(old: str, new: str, code: str) -> None:
    assert old in ONE
    assert problems(ONE) == set()
    assert code in problems(ONE.replace(old, new, 1))


def test_volatile_errors_before_ampere_are_summed() -> None:
    volatile = QUERY.replace("            DRAM Uncorrectable            : 0\n", "")
    volatile = volatile.replace("            SRAM Uncorrectable            : 0\n", "")
    old = "            Double Bit\n                Device Memory : 3\n                Total : 3\n"
    gpu = first_gpu(volatile.replace("        Aggregate\n", f"{old}        Aggregate\n", 1))
    assert gpu.uncorrected == 3


def test_a_table_tells_errors_and_modes_of_each_gpu() -> None:
    row = next(row for row in ROWS if row["id"] == "smi_a100x2_580")
    gpu = first_gpu(row["text"])
    assert (gpu.name, gpu.bus_id) == ("NVIDIA A100-SXM4-40GB", "00000000:10:1C.0")
    assert (gpu.memory_total, gpu.memory_used) == (40960 << 20, 598 << 20)
    assert (gpu.uncorrected, gpu.ecc, gpu.compute_mode, gpu.mig) == (0, True, 3, False)
    broken = row["text"].replace("Off |                    0 |", "Off |                    4 |", 1)
    assert "GPU003" in problems(broken)


def test_memory_in_use_is_not_held_against_a_machine_that_trains() -> None:
    row = next(row for row in ROWS if row["id"] == "smi_a800_535")
    assert findings(row["text"])["GPU002"].status is Status.UNKNOWN


def test_a_report_and_a_table_in_one_text_complete_each_other() -> None:
    table = next(row for row in ROWS if row["id"] == "smi_a100x2_550")["text"]
    both = facts(f"{ENV.replace('A100-SXM4-80GB', 'A100-SXM4-40GB')}\n{table}")
    assert isinstance(both.torch, Torch)
    assert isinstance(both.gpus, tuple)
    assert [gpu.uncorrected for gpu in both.gpus] == [0, 0]


XML = next(row for row in ROWS if row["id"] == "xml_h100")["text"]
BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>\n'


@pytest.mark.parametrize(
    "text", [BOMB + XML, XML.replace("<nvidia_smi_log>", BOMB + "<nvidia_smi_log>")]
)
def test_xml_with_entities_is_refused(text: str) -> None:
    with pytest.raises(ReportError, match="entities"):
        read(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "<nvidia_smi_log>" + "<a>" * 300_000,
        "<nvidia_smi_log>" + "<gpu " + "x" * 1_000_000,
        "PyTorch version: " + "1" * 2_000_000,
        "PyTorch version: 2\n" * 20_000,
        "==============NVSMI LOG==============\n" + "GPU 00000000:00:04.0\n" * 50_000,
        "==============NVSMI LOG==============\n" + "".join(f"{' ' * i}a\n" for i in range(1500)),
        "| NVIDIA-SMI 5.5.5  Driver Version: 5.5.5 |\n" + "|   0  " + " " * 1_000_000,
        "> " * 500_000 + "\x1b[" * 500_000 + "&" * 500_000,
        "torch version " + "." * 1_000_000,
        "\x00\ufffd\u202e" * 500_000,
    ],
    ids=range(10),
)
def test_hostile_texts_end_and_claim_nothing(text: str) -> None:
    assert read(text).driver in (None, "5.5.5")


def test_unknown_is_no_gpu_and_no_driver() -> None:
    only_torch = facts("torch version .................... 2.9.1+cu128\n")
    assert isinstance(only_torch.gpus, Unknown)
    assert isinstance(only_torch.driver, Unknown)
    assert isinstance(only_torch.host, Unknown)


def test_lines_of_a_kernel_log_do_not_deny_its_module() -> None:
    lines = (
        "NVRM: API mismatch: the client has the version 580.95.05, but\nNVRM: this kernel module "
    )
    lines += (
        "has the version 570.86.10.\nFailed to initialize NVML: Driver/library version mismatch"
    )
    summary = findings(lines)["DRV001"].verdict.summary
    assert "Driver/library version mismatch" in summary
    assert "no kernel module" not in summary
