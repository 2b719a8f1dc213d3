"""Clocks of a host, limits of a GPU, and accelerators beside NVIDIA's: each fault beside what
resembles it and is none.

The texts are our own, in the structure that the tools print.
"""

from __future__ import annotations

import pytest

from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.judge.check import Finding, Owner
from doctor.pasted import read


def problems(text: str) -> dict[str, Finding]:
    found = findings_of(facts_of_text(text, "report"))
    return {each.check.code: each for each in found if each.is_problem}


LISTED = "GPU 0: NVIDIA L4 (UUID: GPU-52c1a8e7-83d0-5f43-b7b8-30ad8f5d9ab2)\n"
CLOCK = "/sys/devices/system/clocksource/clocksource0/"
UNSTABLE = "[91.3] clocksource: Switched to clocksource {}\n"
CPU = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_"
GOVERNOR = f"$ cat {CPU}driver\n{{}}\n$ cat {CPU}governor\n{{}}\n"
CORES = "$ uptime\n 10:00 up 3 days, load average: {}, 9.2, 8.1\n" + 4 * "cpu MHz   : {}\n"
MOST = "CPU max MHz:          4000.0000\n"
LIMIT = (
    "name, power.draw [W], power.limit [W], power.default_limit [W], clocks.current.sm [MHz], "
    "clocks.max.sm [MHz], utilization.gpu [%], clocks_event_reasons.active\n"
    "NVIDIA H100 PCIe, {} W, {} W, 350.00 W, {} MHz, 1980 MHz, {} %, 0x0000000000000004\n"
)
MODE = "# R36 (release), REVISION: 4.3\n$ sudo nvpmodel -q\nNV Power Mode: {}\n1\n{}\n"
ROCM = "=== ROCm System Management Interface ===\n"
ROW = "0   2   0x74a1,  28851  44.0°C   141.0W   {}, 0   120Mhz  900Mhz  0%  auto  750.0W 0% 0%\n"
GAUDI = "| Driver Version:           {}-78932ae  |\nhabana-torch-plugin   1.21.1.16\n{}\n"
ACQUIRE = "RuntimeError: synStatus=26 [Generic failure] Device acquire failed."
ARC = "$ python -c 'print(torch.__version__, torch.xpu.is_available())'\n2.8.0+xpu {}\n"
NODE = "crw-rw---- 1 root render 226, 128 May  2 09:11 /dev/dri/renderD128\n$ id -nG\n"
SYCL = "$ sycl-ls\n[opencl:cpu][opencl:0] Intel(R) OpenCL, Ryzen 7\n"
BAR = "WARNING: Resizable BAR not detected for device 0000:03:00.0\n"
MAC = "{}\n>>> torch.backends.mps.is_available()\n{}\n>>> platform.machine()\n'{}'\n"
WSL = "5.15.167.4-microsoft-standard-WSL2\n"
LDCONFIG = "    libcuda.so.1 (libc6,x86-64) => {}/libcuda.so.1\n"
UNKNOWN = (
    "UserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly set "
    "up environment"
)
TORCH = "$ python -c 'print(torch.__version__, torch.cuda.is_available())'\n2.7.1+cu126 {}\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (f"{LISTED}$ cat {CLOCK}current_clocksource\nhpet\n", "clock-source-slow"),
        (UNSTABLE.format("tsc") + UNSTABLE.format("acpi_pm"), "clock-source-slow"),
        (GOVERNOR.format("acpi-cpufreq", "powersave"), "cpu-clock-held-low"),
        (GOVERNOR.format("amd-pstate", "     64 powersave"), "cpu-clock-held-low"),
        (CORES.format("14.31", *4 * ["800.000"]) + MOST, "cpu-clock-held-low"),
        (LIMIT.format("199.3", "200.00", 1005, 100), "power-limit-low"),
        (MODE.format("15W", "it is 5x slower than published"), "jetson-power-mode"),
        (ROCM + ROW.format("NPS4, CPX") + "isn't this supposed to have 192 GB?", "gpu-partitioned"),
        ("COMPUTE_PARTITION: DPX\nwhy are there 16 GPUs\n", "gpu-partitioned"),
        ("| 0  0  7   CPX/NPS4 | 0 % | 283/24560 MB |\nrank 0 OOMs\n", "gpu-partitioned"),
        (GAUDI.format("1.17.1", ACQUIRE), "accelerator-not-set-up"),
        (GAUDI.format("1.21.1", ACQUIRE), "accelerator-not-set-up"),
        (ARC.format("False") + NODE + "joe sudo\n", "accelerator-not-set-up"),
        (ARC.format("False") + NODE + "joe render\n" + SYCL, "accelerator-not-set-up"),
        (ARC.format("False") + BAR + SYCL, "intel-gpu-small-window"),
        (MAC.format("M2 Max", False, "x86_64"), "mac-python-of-intel"),
        (WSL + UNKNOWN + "\n" + LDCONFIG.format("/lib/x86_64-linux-gnu"), "wsl-linux-driver"),
        (WSL + TORCH.format(False) + "ii  nvidia-driver-535  535.183\n", "wsl-linux-driver"),
        ("Error 500: named symbol not found in cudaGetDeviceCount()", "wsl-container-toolkit-old"),
        ("neuron-ls: error: no neuron device found", "accelerator-not-set-up"),
        ("TPU initialization failed: open(/dev/accel0): Operation not permitted",
         "accelerator-not-set-up"),
        ("earlyoom[81]: sending SIGTERM to process 99 uid 1 \"python\": b", "host-memory-killed"),
        ("ImportError: libhccl.so: cannot open shared object file: No such",
         "accelerator-not-set-up"),
    ],
)  # fmt: skip
def test_the_cause_is_named(text: str, cause: str) -> None:
    assert problems(text)["DRV003"].verdict.causes == (cause,)


@pytest.mark.parametrize(
    "text",
    [
        f"{LISTED}$ cat {CLOCK}available_clocksource\ntsc hpet acpi_pm\n"
        f"$ cat {CLOCK}current_clocksource\ntsc\n",
        LISTED + UNSTABLE.format("hpet") + UNSTABLE.format("tsc"),
        LISTED + UNSTABLE.format("hpet"),
        LISTED + "tsc: Marking TSC unstable\n" + UNSTABLE.format("kvm-clock"),
        LISTED + GOVERNOR.format("intel_pstate", "powersave"),
        LISTED + GOVERNOR.format("amd-pstate-epp", "powersave"),
        LISTED + GOVERNOR.format("acpi-cpufreq", "performance"),
        LISTED + CORES.format("0.31", *4 * ["800.000"]) + MOST,
        LISTED + CORES.format("14.31", *3 * ["800.000"], "3700.1") + MOST,
        LISTED + "mce: Core temperature is above threshold, cpu clock is throttled (total events "
        "= 3)\n",
        LIMIT.format("279.8", "280.00", 1600, 100),
        LIMIT.format("30.2", "200.00", 345, 0),
        MODE.format("MAXN", "it is slow") + TORCH.format(True),
        MODE.format("15W", "a rover with a battery") + TORCH.format(True),
        ROCM + ROW.format("NPS1, SPX") + "is it supposed to have 192 GB?",
        ROCM + ROW.format("NPS4, CPX") + "one small model per part, on purpose; why not",
        ROCM + ROW.format("NPS4, CPX"),
        LISTED + GAUDI.format("1.21.0", ACQUIRE.replace("synStatus", "x").replace("acquire", "")),
        LISTED + GAUDI.format("1.20.0", "step 100 loss 2.1"),
        ARC.format("True") + NODE + "joe sudo\n" + SYCL,
        LISTED + MAC.format("M2 Max", True, "x86_64"),
        LISTED + MAC.format("MacBook Pro, Intel i9", False, "x86_64"),
        WSL + TORCH.format(True) + LDCONFIG.format("/lib/x86_64-linux-gnu"),
        WSL + TORCH.format(True) + LDCONFIG.format("/usr/lib/wsl/lib"),
        LISTED + "[9.1] i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dffffb\n",
    ],
)
def test_what_resembles_it_is_no_fault(text: str) -> None:
    assert problems(text) == {}


def test_wsl_has_no_module_to_load_anew() -> None:
    verdict = problems(WSL + TORCH.format(False) + UNKNOWN)["GPU001"].verdict
    assert verdict.causes == ("wsl-linux-driver",)
    elsewhere = problems(TORCH.format(False) + UNKNOWN)["GPU001"].verdict
    assert "nvidia_uvm" in (elsewhere.fix or "")


@pytest.mark.parametrize("library", ["libcurand.so.10", "libcudnn.so.8", "libcusparseLt.so.0"])
def test_a_jetson_has_its_libraries_from_jetpack(library: str) -> None:
    text = f">>> import torch\nOSError: {library}: cannot open shared object file: No such file\n"
    fix = problems(f"Jetson Xavier NX\n{text}")["TOR001"].fix
    assert "nvidia-jetpack" in fix
    assert "nvidia-jetpack" not in problems(text)["TOR001"].fix


def test_a_hip_error_gets_the_remedy_of_rocm() -> None:
    fix = problems("RuntimeError: HIP error: invalid device function\n")["TOR003"].fix
    assert "HSA_OVERRIDE_GFX_VERSION" in fix


PARTS = "".join(f"  MIG 3g.40gb  Device  {n}: (UUID: MIG-7d1f0a92-6c61-{n})\n" for n in range(2))
QUERY = "name, memory.total [MiB], mig.mode.current\nNVIDIA L4, 81559 MiB, {}\n"


def test_instances_of_a_list_belong_to_the_gpu_of_a_table() -> None:
    text = LISTED + PARTS + QUERY.format("Enabled") + "CUDA_VISIBLE_DEVICES=MIG-7d1f0a92-6c61-1\n"
    (gpu,) = read(text).gpus
    assert [part.uuid for part in gpu.slices] == ["MIG-7d1f0a92-6c61-0", "MIG-7d1f0a92-6c61-1"]
    assert problems(text) == {}
    assert "GPU001" in problems(text.replace("6c61-1\n", "ffff-1\n"))


@pytest.mark.parametrize(
    "prompt",
    [
        '(det) jo@raman:~$ python -c "print(torch.cuda.is_available())"',
        "$ python train.py --lr 1",
        "root@c9d7a5e8be41:/data# ls",
        ">>> import torch",
    ],
)
def test_the_next_command_is_no_gpu(prompt: str) -> None:
    command = "$ nvidia-smi --query-gpu=name --format=csv,noheader\n"
    names = [gpu.name for gpu in read(f"{command}NVIDIA A10\nNVIDIA A10\n{prompt}\n").gpus]
    assert names == ["NVIDIA A10", "NVIDIA A10"]


@pytest.mark.parametrize(("mode", "first"), [("ON", "Attest"), ("OFF", "The NVSwitch fabric")])
def test_a_confidential_gpu_is_not_returned(mode: str, first: str) -> None:
    error = "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet"
    text = f"{LISTED}{error} initialized\nCC status: {mode}\n"
    found = problems(text)["DRV001"]
    assert found.verdict.fix.startswith(first)
    assert (found.owner is Owner.MACHINE) is (mode == "OFF")


OF_ARC = "Intel Arc B580\n>>> torch.__version__\n'{}'\n>>> torch.xpu.is_available()\n{}\n"


@pytest.mark.parametrize("build", ["2.6.0+cu124", "2.8.0+cpu"])
def test_a_torch_for_others_on_a_gpu_of_intel_is_named(build: str) -> None:
    found = problems(OF_ARC.format(build, False))["DRV003"]
    assert "one of Intel" in found.verdict.summary
    assert "whl/xpu" in found.fix


@pytest.mark.parametrize("text", [
    OF_ARC.format("2.8.0+xpu", False), OF_ARC.format("2.8.0+xpu", True),
    OF_ARC.format("2.6.0+cu124", True),
    OF_ARC.format("2.6.0+cu124", False) + "NVIDIA GeForce RTX 4060 Laptop GPU\n",
    OF_ARC.format("2.6.0+cu124", False) + "torch==2.8.0+xpu\n",
    OF_ARC.format("2.6.0+cu124", False).replace("Intel Arc B580", "Intel(R) Core(TM) i7"),
])  # fmt: skip
def test_what_resembles_a_torch_for_others_is_none(text: str) -> None:
    assert not [each for each in read(text).reported if "one of Intel" in each.line]


PROMPT = ">>> torch.__version__\n'2.3.1+cu121'\n>>> torch.cuda.is_available()\n{}\n"
DPKG = (
    "ii  libnvidia-compute-535:amd64   535.183.01-0ubuntu1   amd64\n"
    "ii  nvidia-utils-535  535.183.01-0ubuntu1\n"
)


@pytest.mark.parametrize(
    "found",
    [
        LDCONFIG.format("/lib/x86_64-linux-gnu") + LDCONFIG.format("/usr/lib/wsl/lib") + DPKG,
        LDCONFIG.format("/usr/lib/x86_64-linux-gnu"),
        "    libcuda.so (libc6,x86-64) => /usr/lib64/libcuda.so\n",
        DPKG,
        "ii  nvidia-driver-550-open  550.54.15-0ubuntu1\n",
        "ii  cuda-drivers  560.35.05-1\n",
    ],
)
def test_a_prompt_in_wsl_with_a_driver_for_linux(found: str) -> None:
    text = f"Windows 11 23H2\n{WSL}{PROMPT.format(False)}{found}"
    facts = facts_of_text(text, "report")
    failed = problems(text)
    assert failed["DRV003"].verdict.causes == failed["GPU001"].verdict.causes
    assert "apt purge" in (failed["DRV003"].fix or "")
    assert facts.host.system == "Linux"
    assert "535.183" not in str(facts)  # a package inside WSL is not the driver


@pytest.mark.parametrize(
    "text",
    [
        WSL + PROMPT.format(True) + LDCONFIG.format("/lib/x86_64-linux-gnu") + DPKG,
        WSL + PROMPT.format(True) + LDCONFIG.format("/usr/lib/wsl/lib"),
        "6.8.0-45-generic\n" + PROMPT.format(False) + LDCONFIG.format("/lib/x86_64-linux-gnu"),
        WSL + PROMPT.format(False) + LDCONFIG.format("/usr/lib/wsl/lib"),
        WSL + PROMPT.format(False) + "ii  nvidia-container-toolkit  1.16.1-1\n",
    ],
)
def test_a_prompt_without_such_a_driver(text: str) -> None:
    assert "DRV003" not in problems(text)
