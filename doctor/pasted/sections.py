"""A reading -> facts. What no report states is Unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace as with_fields

from doctor._util.records import Ended, Unknown
from doctor.facts.facts import ORIGIN, Facts
from doctor.facts.host import Host, wsl_of
from doctor.facts.interpreter import OF_REPORT, Cuda, Interpreter, Torch, TorchGpu
from doctor.facts.machine import Driver, Gpu
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.pasted.packages import LISTING
from doctor.pasted.reading import NOT_IN_REPORT, NUMBERED, Reading, gpu_named
from doctor.pasted.stated import STATED

UNREAD = Unknown(reason=NOT_IN_REPORT)
NO_CUDA = Unknown(reason="the report prints No CUDA: no NVIDIA driver, GPU or toolkit was found")
OK = Ended(how="ok")


class Tables(NamedTuple):
    """What is known of published wheels and GPU models."""

    capability: Callable[[str], tuple[int, int] | None]
    """A GPU's name -> its compute capability."""
    archs: Callable[[str, str, str], tuple[str, ...]]
    """torch's version, its CUDA and the architecture -> the code in that wheel."""
    driver_cuda: Callable[[str], int | None]
    """The driver's version -> its CUDA, 1000 * major + 10 * minor."""


def facts_of(reading: Reading, tables: Tables) -> Facts:
    """The facts of a machine as its pasted reports state them."""
    torch, is_rocm = _torch(reading, tables), bool(reading.hip or reading.amd)
    gpus = _at_fault(reading, _with_capabilities(reading.gpus, tables))
    selected = _selected(gpus, _selection(reading).get("CUDA_VISIBLE_DEVICES"))
    return Facts(
        origin=f"{ORIGIN}: {', '.join(reading.kinds)}",
        job=Job(),
        options=RunOptions(quick=True),
        host=_host(reading),
        driver=None if is_rocm else _driver(reading, tables),
        gpus=None if is_rocm else _gpus(reading, gpus),
        interpreter=_interpreter(reading),
        torch=torch,
        cuda=_cuda(reading, selected, torch),
        libraries=UNREAD,
        places=UNREAD,
        smoke=UNREAD,
        attention=UNREAD,
        load=UNREAD,
        watched=reading.watched or UNREAD,
        peers=UNREAD,
    )


def _gpus(reading: Reading, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...] | Unknown:
    if gpus or reading.no_devices:
        return gpus
    return NO_CUDA if reading.without_nvidia else UNREAD


def _with_capabilities(gpus: tuple[Gpu, ...], tables: Tables) -> tuple[Gpu, ...]:
    records = []
    for gpu in gpus:
        fields = {name: getattr(gpu, name) for name in gpu.__struct_fields__}
        fields["capability"] = gpu.capability or tables.capability(gpu.name)
        if fields["capability"]:
            fields["unread"] = {k: v for k, v in gpu.unread.items() if k != "capability"}
        records.append(Gpu(**fields))
    return tuple(records)


def _at_fault(reading: Reading, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The only GPU with the error of its hardware that a kernel met; among several GPUs the error
    names none."""
    if not _is_of_only(reading, gpus):
        return gpus
    return (with_fields(gpus[0], diagnosed=reading.kernel_error),)


def _is_of_only(reading: Reading, gpus: Sequence[Gpu]) -> bool:
    """A GPU that a report lists: a word of a sentence names a model, and not how many there are."""
    return bool(reading.kernel_is_hardware) and len(gpus) == 1 and bool(gpus[0].bus_id)


def _host(reading: Reading) -> Host | Unknown:
    stated = (reading.system, reading.amd, reading.kernel_events, reading.hcas, reading.reported,
              reading.visible_devices, reading.shm)  # fmt: skip
    is_cpu_build = reading.cuda == "" and bool(reading.gpus or reading.driver)
    if not (any(stated) or is_cpu_build):
        return UNREAD
    is_rocm = bool(reading.hip or reading.amd)
    # A report that says there is no NVIDIA GPU means that of Windows as well.
    wsl = wsl_of(reading.release or "") if is_rocm or not reading.without_nvidia else None
    return Host(
        system=reading.system or "Linux",
        release=reading.release or "",
        arch=reading.arch or "",
        pci_listed=False,
        nvidia_devices=0 if is_rocm else len(reading.gpus) or int(bool(reading.driver)),
        amd_devices=max(len(reading.gpus), 1) if is_rocm else 0,
        unusable_amd_nodes={"/dev/kfd": reading.kfd_error} if reading.kfd_error else None,
        device_nodes=("/dev/dxg",) if wsl == "WSL2" else (),
        sandbox=wsl,
        cpus=reading.cpus,
        kernel_events=reading.kernel_events or None,
        reported=reading.reported,
        env=_selection(reading),
        shm_total=reading.shm,
        hcas=reading.hcas or None,
    )


def _selection(reading: Reading) -> dict[str, str]:
    """The variables that select GPUs, without values that the report cannot refute: UUIDs where
    torch uses a GPU or the report states none, and a selection of nothing where torch uses one."""
    uuids = [each for gpu in reading.gpus for each in (gpu.uuid, *(s.uuid for s in gpu.slices))]
    refutes = not reading.cuda_available and not any(map(NUMBERED.fullmatch, uuids))
    numbers = {str(gpu.index) for gpu in reading.gpus}
    return {
        name: value
        for name, value in reading.visible_devices
        if refutes
        or not (
            value.startswith(("GPU-", "MIG-"))
            or (reading.cuda_available and numbers.isdisjoint(value.split(",")))
        )
    }


def _selected(gpus: tuple[Gpu, ...], variable: str | None) -> tuple[Gpu, ...]:
    """The GPUs that torch sees if the variable names some of them by number, else all."""
    numbers = (variable or "").split(",")
    selected = tuple(gpu for gpu in gpus if str(gpu.index) in numbers)
    return selected if selected and all(map(str.isdecimal, numbers)) else gpus


NODES_DENIED = 304
"""CUDA's code where the devices cannot be opened, which NVML calls an unknown error."""


def _driver(reading: Reading, tables: Tables) -> Driver | Unknown:
    is_both = reading.driver_code == NODES_DENIED
    alone = reading.nvml_error and (is_both or not reading.driver_error)
    if reading.nvml_code is not None or alone:
        nvml = Ended(how="error", detail=reading.nvml_error or "", code=reading.nvml_code)
    elif reading.driver_error or reading.driver or reading.gpus or reading.no_devices:
        nvml = OK
    else:
        return NO_CUDA if reading.without_nvidia else UNREAD
    return Driver(
        nvml=nvml,
        cuda=_cuda_start(reading),
        version=reading.driver,
        cuda_version=reading.driver_cuda or tables.driver_cuda(reading.driver or ""),
        confidential=reading.confidential,
    )


def _cuda_start(reading: Reading) -> Ended:
    if reading.cuda_available:
        return OK
    if reading.driver_error:
        return Ended(how="error", detail=reading.driver_error, code=reading.driver_code)
    if reading.no_cuda_library:
        return Ended(how="error", detail="nvidia-smi prints CUDA Version: ERR!")
    return _not_in_report("whether cuInit responds")


def _not_in_report(question: str) -> Ended:
    return Ended(how="budget", detail=f"{NOT_IN_REPORT} {question}")


def _interpreter(reading: Reading) -> Interpreter | Unknown:
    if reading.torch is None and not reading.import_error:
        return UNREAD
    reason = reading.import_error or "collect_env could not import torch (version N/A)"
    importing = Ended(how="error", detail=reason)
    if reading.torch and not reading.import_error:
        listed = LISTING in reading.kinds and set(reading.kinds) <= {LISTING, STATED}
        listed = listed and reading.cuda_available is None  # nothing in it imported torch
        importing = _not_in_report("whether torch imports") if listed else OK
    return Interpreter(
        path="python",
        chosen=OF_REPORT,
        version=reading.python or "",
        importing=importing,
        packages=reading.packages,
        installed=_installed(reading),
    )


def _installed(reading: Reading) -> tuple[str, ...] | None:
    """With a torch whose CUDA the report does not state."""
    listed = any(each.startswith("torch==") for each in reading.installed)
    if listed or not reading.torch or reading.cuda is not None or reading.hip:
        return reading.installed or None
    return (f"torch=={reading.torch}", *reading.installed)


def _torch(reading: Reading, tables: Tables) -> Torch | Unknown:
    if not reading.torch or (reading.cuda is None and not reading.hip):
        return UNREAD
    archs = reading.archs
    if reading.cuda and not archs:
        archs = tables.archs(reading.torch, reading.cuda, reading.arch or "x86_64")
    return Torch(
        version=reading.torch,
        cuda=reading.cuda or None,
        hip=reading.hip,
        archs=archs,
        cudnn_error=reading.cudnn_error,
    )


def _cuda(reading: Reading, gpus: tuple[Gpu, ...], torch: Torch | Unknown) -> Cuda | Unknown | None:
    """torch's view, where the report states whether CUDA started."""
    error = reading.cuda_error
    if reading.without_nvidia and not (reading.cuda_available or (reading.hip and error)):
        return NO_CUDA
    kernel_error = None if _is_of_only(reading, gpus) else reading.kernel_error
    if error and not reading.cuda_available:
        return Cuda(started=Ended(how="error", detail=error))
    is_listed = any(each.startswith("nvidia-smi") for each in reading.kinds)
    is_unbuilt = isinstance(torch, Unknown) and (reading.torch is None or is_listed)
    if (
        is_unbuilt
        and reading.torch != ""
        and reading.cuda_available is False
        and (gpus or reading.release == "-tegra")
    ):
        detail = f"torch.cuda.is_available() returned False; {NOT_IN_REPORT} torch's build"
        return Cuda(started=Ended(how="error", detail=detail))
    if (reading.cuda_available is None or isinstance(torch, Unknown)) and not kernel_error:
        return UNREAD
    if not reading.cuda_available and not kernel_error:
        if isinstance(torch, Unknown) or not (torch.cuda or torch.hip):
            return None
        detail = "torch.cuda.is_available() returned False"
        return Cuda(started=Ended(how="error", detail=detail))
    return _views(reading, gpus, kernel_error)


def _views(reading: Reading, gpus: tuple[Gpu, ...], error: str | None) -> Cuda | Unknown:
    """The GPUs as torch sees them. The error of a kernel does not name its own among different
    ones."""
    is_same = len({gpu.name for gpu in gpus}) == 1
    if error and len(gpus) > 1 and (reading.kernel_is_hardware or not is_same):
        return Cuda(started=Ended(how="error", detail=f"on one of {len(gpus)} GPUs: {error}"))
    kernel = Ended(how="error", detail=error) if error else None
    if error and not gpus:
        gpus = (gpu_named(0, ""),)
    gfx = dict(enumerate(reading.gfx)) if len(reading.gfx) == len(gpus) else {}
    views = [
        TorchGpu(
            index=gpu.index,
            uuid=gpu.uuid,
            name=gpu.name,
            capability=gpu.capability or (0, 0),
            memory_total=gpu.memory_total or 0,
            gfx=gfx.get(number),
            kernel=kernel,
        )
        for number, gpu in enumerate(gpus)
        if gpu.capability or kernel
    ]
    if not views or len(views) < len(gpus):
        return Unknown(reason=f"{NOT_IN_REPORT} the GPUs that torch sees")
    return Cuda(started=OK, gpus=tuple(views))
