"""What stands beside a report in people's words: titles, products, versions of a pair, values of a
variable. Each is read where it decides the remedy, and not where it resembles it."""

from __future__ import annotations

import pytest

from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.judge.check import Finding, Status
from doctor.pasted import read
from doctor.report.report import Report

NO_CODE = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
NO_HIP = "RuntimeError: HIP error: invalid device function\n"
OLD = "The NVIDIA driver on your system is too old (found version 12080)\n"
NMS = "RuntimeError: operator torchvision::nms does not exist\n"
SHOW = "$ pip show torch\nName: torch\nVersion: {}\n\n$ pip show torchvision\nName: torchvision\n"
ENV = "Collecting environment information...\nPyTorch version: N/A\nIs debug build: N/A\n"
SYMBOL = "torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister\n"
SMI = "| NVIDIA-SMI 555.58.02   Driver Version: 555.58.02   CUDA Version: 12.5 |\n"
ROW = "|   0  NVIDIA A100-SXM4-80GB   On  | 00000000:2A:00.0 Off |                    {} |\n"
USED = "| N/A   27C    P0     60W / 400W |      4MiB / 81920MiB |      0%      Default |\n"
HELD = "MISMATCH\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Thu Jan  6 12:10:04 UTC\n"
LOADED = HELD.replace("MISMATCH", "Failed to initialize NVML: Driver/library version mismatch")
DKMS = "nvidia/470.63.01, 3.10.0-1160.83.1.el7.x86_64, x86_64: installed\n"


def findings(text: str) -> dict[str, Finding]:
    return {each.check.code: each for each in findings_of(facts_of_text(text, "report"))}


def test_the_title_of_a_thread_is_read_and_a_comment_in_code_is_not() -> None:
    versions = "- Driver: `570.86.10`\n- PyTorch: `2.11.0`\n"
    assert findings(f"# {OLD}\n{versions}")["DRV002"].status is Status.FAIL
    assert "DRV002" not in {
        code for code, each in findings(f"{versions}\n# {OLD}").items() if each.is_problem
    }


def test_a_jetson_that_the_text_names_gets_its_own_wheel() -> None:
    orin = findings(f"the board is a Jetson AGX Orin\n{NO_CODE}")["TOR003"]
    thor = findings(f"torch 2.9.1+cu128 on a Jetson Thor\n{NO_CODE}")["TOR003"]
    unknown = findings(f"the board is an Orion\n{NO_CODE}")["TOR003"]
    assert "JetPack" in orin.fix
    assert "for CUDA 13.0" in thor.fix
    assert "JetPack" not in unknown.fix


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("Strix Halo, Radeon 8060S Graphics\n", "Install a ROCm build of torch with code"),
        ("rocminfo says gfx1201\n", "Install a wheel of torch for ROCm 6.0 or newer"),
        ("the card is a gfx803\n", "No wheel of PyTorch has code for gfx803"),
        ("gfx1100, and gfx1036 of the processor\n", "Install a ROCm build of torch with code"),
        ("an RX 7900 XTX\n", "Install a ROCm build of torch with code"),
    ],
)
def test_an_amd_gpu_that_the_text_names_decides_the_wheel(text: str, fix: str) -> None:
    assert findings(text + NO_HIP)["TOR003"].fix.startswith(fix)


def test_versions_that_pip_show_prints_are_a_pair() -> None:
    apart = findings(SHOW.format("2.4.0+cu121") + "Version: 0.20.1+cu124\n" + NMS)
    fits = findings(SHOW.format("2.5.1+cu124") + "Version: 0.20.1+cu124\n" + NMS)
    assert apart["DRV003"].fix.startswith("Install torchvision 0.19 from this torch's index")
    assert apart["TOR004"].is_problem
    assert fits["DRV003"].verdict.causes == ("torchvision-code-missing",)
    assert not fits["TOR004"].is_problem


def test_sources_that_torch_hub_imports_are_not_the_installed_package() -> None:
    pair = "torch         2.7.1\ntorchvision   0.22.1\n" + NMS
    called = "torch.hub.list('pytorch/vision', force_reload=True)\n"
    assert "instead of torch.hub" in findings(pair + called)["DRV003"].fix
    assert "instead of torch.hub" not in findings(pair)["DRV003"].fix


def test_a_symbol_that_torch_misses_without_the_name_of_the_error() -> None:
    assert "nvidia-nccl" in findings(ENV + SYMBOL)["TOR001"].fix
    other = SYMBOL.replace("torch/lib/libtorch_cuda", "site-packages/flash_attn_2_cuda")
    assert "undefined symbol" not in findings(ENV + other)["TOR001"].verdict.summary


def test_a_module_that_the_start_loads_is_not_the_one_on_the_disk() -> None:
    newer = findings(LOADED.format("470.103.01") + DKMS)
    assert "update-initramfs" not in newer["DRV001"].fix  # a release older, without a restart
    older = findings(LOADED.format("470.57.02") + DKMS)
    assert "update-initramfs" not in older["DRV001"].fix
    in_vain = "Tried rebooting the system, but it still fails.\n"
    assert "update-initramfs" in findings(LOADED.format("470.57.02") + DKMS + in_vain)["DRV001"].fix


def test_rows_of_a_table_without_its_head() -> None:
    assert findings(ROW.format(0) + USED)["GPU003"].status is Status.PASS
    assert findings(ROW.format(2) + USED)["GPU003"].is_problem
    assert not read("|   0  Tesla  |  the first column  |\n")


def test_all_is_no_value_that_selects_gpus() -> None:
    table = SMI + ROW.format(0) + USED
    compose = "    environment:\n      CUDA_VISIBLE_DEVICES: all\n"
    assert findings(table + compose)["GPU001"].fix.startswith("Unset CUDA_VISIBLE_DEVICES")
    lightning = "LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0]\n"
    for healthy in (compose.replace("CUDA", "NVIDIA"), lightning):
        assert not findings(table + healthy)["GPU001"].is_problem


def test_a_cpu_build_where_torch_was_asked_for_cuda_is_a_note() -> None:
    asked = "Ultralytics 8.3.40 Python-3.11.9 torch-2.6.0+cpu\ntorch.cuda.is_available(): False\n"
    assert findings(asked)["DRV003"].verdict.causes == ("cpu-build-listed",)
    assert findings(asked)["DRV003"].status is Status.NOTE
    with_cuda = findings(asked.replace("+cpu", "+cu126"))
    assert "cpu-build-listed" not in str(with_cuda)


def test_a_gpu_of_a_newer_minor_capability_is_warned_of_in_vain() -> None:
    warns = "UserWarning: Found GPU0 {} which is of compute capability (CC) {}.\n"
    torch = "torch==2.13.0+cu130\n"
    gb10 = findings(torch + warns.format("NVIDIA GB10", "12.1"))
    assert not any(each.is_problem for each in gb10.values())
    others = "- 8.0 which supports hardware CC >=8.0,<9.0 except {8.7}\n"
    older = torch.replace("cu130", "cu126") + warns.format("NVIDIA GB10", "12.1") + others
    lacks = findings(older)["TOR003"]
    assert (lacks.status, "has sm_80; none" in lacks.verdict.summary) == (Status.FAIL, True)
    volta = findings(torch + warns.format("Tesla V100-PCIE-32GB", "7.0"))
    assert volta["TOR003"].status is Status.FAIL


def test_trl_lists_every_gpu_behind_one_label() -> None:
    env = "- Platform: Linux-5.15.0\n- PyTorch version: 2.0.1\n- CUDA device(s): {}\n"
    assert len(read(env.format(", ".join(["NVIDIA A100-PCIE-40GB"] * 9))).gpus) == 9
    assert [gpu.name for gpu in read(env.format("NVIDIA A40")).gpus] == ["NVIDIA A40"]
    assert not read(env.format("not available, see above")).gpus


def test_the_cause_of_a_line_leads_the_verdict() -> None:
    facts = facts_of_text(SHOW.format("2.4.0") + "Version: 0.20.1\n" + NMS, "report")
    report = Report(facts, findings_of(facts), "fail")
    assert report.verdict_line.startswith("FIX: name-moved (DRV003): Install torchvision 0.19")
