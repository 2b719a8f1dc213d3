"""One device under load for about a second: matmuls, copies, and repeated products.

Rates are medians over timed repeats after a warm-up. If a repeated product differs, one of the two
is wrong: cuBLAS returns the same bits for the same call on one stream.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch

from ... import wire
from .brake import Brake
from .near import near

SHARES = {
    "half": 0.25,
    "tf32": 0.1,
    "fp32": 0.1,
    "copy": 0.05,
    "to": 0.1,
    "from": 0.1,
    "same": 0.15,
}
"""Seconds of each part."""
SIZES = (8192, 4096, 2048, 1024, 512, 256, 128)
FIRST_SIZE = 2048
ONE_PRODUCT = 0.03
"""Seconds that one half-precision product may take, so that several fit into their share."""
HOST_RUNS = 3
"""Runs of each host copy; the fastest counts, because other processes use the link too."""
MEMORY_SHARE = 8
"""At most this part of the free memory is used at once."""
COPIED, PINNED = 512 * 2**20, 64 * 2**20
MIN_REPEATS, MAX_REPEATS = 3, 500
"""Timed repeats of each part."""
PRODUCTS = 100
CPU_SIZES, CPU_BYTES, CPU_FREE = (128,), 2**20, 2**30


class Device:
    """The differences between a GPU and the CPU, which is used in tests."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cuda = device.type == "cuda"
        if self.cuda:
            torch.cuda.set_device(device)
        else:
            torch.set_num_threads(1)  # threads waiting for each other distort the rate

    def free(self) -> int:
        return int(torch.cuda.mem_get_info(self.device)[0]) if self.cuda else CPU_FREE

    def empty(self) -> None:
        """Return cached memory to the GPU."""
        if self.cuda:
            torch.cuda.empty_cache()

    def half(self) -> Tuple[str, torch.dtype]:
        """The half precision with tensor cores of its own: bf16 from Ampere on."""
        if not self.cuda or torch.version.hip or self._capability() >= (8, 0):
            return "bf16", torch.bfloat16
        return "fp16", torch.float16

    def tf32(self) -> bool:
        return not self.cuda or (not torch.version.hip and self._capability() >= (8, 0))

    def _capability(self) -> Tuple[int, int]:
        return torch.cuda.get_device_capability(self.device)

    def times(self, work: Callable[[], Any], count: int) -> List[float]:
        """Seconds of each of `count` calls, queued back to back."""
        if not self.cuda:
            return [self._seconds(work) for _ in range(count)]
        event: Any = torch.cuda.Event
        marks = [event(enable_timing=True) for _ in range(count + 1)]
        marks[0].record()
        for mark in marks[1:]:
            work()
            mark.record()
        marks[-1].synchronize()
        return [marks[i].elapsed_time(marks[i + 1]) / 1e3 for i in range(count)]

    def _seconds(self, work: Callable[[], Any]) -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    def median(self, work: Callable[[], Any], share: float) -> float:
        """Median seconds of one call, measured for about `share` seconds after a warm-up."""
        self.times(work, 1)
        once = max(self.times(work, 2)[-1], 1e-7)
        count = int(min(MAX_REPEATS, max(MIN_REPEATS, share / once)))
        return statistics.median(self.times(work, count))


@contextlib.contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Matmul TF32 on or off through the API of this torch, restored afterwards."""
    matmul = torch.backends.cuda.matmul
    value: Any
    try:
        name, value = "fp32_precision", "tf32" if allowed else "ieee"
        before: Any = matmul.fp32_precision
    except (AttributeError, AssertionError):  # before torch 2.9; torch 2.1 raises the latter
        name, value = "allow_tf32", allowed
        before = matmul.allow_tf32
    setattr(matmul, name, value)
    try:
        yield
    finally:
        setattr(matmul, name, before)


def matrices(device: Device, size: int, dtype: torch.dtype) -> Tuple[torch.Tensor, ...]:
    """Two random factors and room for their product; random values draw realistic power."""
    draw = torch.Generator(device.device).manual_seed(22)
    left, right = (
        torch.randn(size, size, generator=draw, device=device.device).to(dtype) for _ in range(2)
    )
    return left, right, torch.empty_like(left)


def fitting(device: Device, dtype: torch.dtype) -> int:
    """Rows of the square matrices: as large as memory and speed allow."""
    sizes = SIZES if device.cuda else CPU_SIZES
    first = min(FIRST_SIZE, sizes[0])
    left, right, out = matrices(device, first, dtype)
    device.times(lambda: torch.mm(left, right, out=out), 2)
    once = statistics.median(device.times(lambda: torch.mm(left, right, out=out), 5))
    room = device.free() // MEMORY_SHARE
    for size in sizes:
        if once * (size / first) ** 3 <= ONE_PRODUCT and 3 * 4 * size * size <= room:
            return size
    return sizes[-1]


def matmul_rate(device: Device, size: int, dtype: torch.dtype, share: float) -> float:
    """FLOP/s of the square product."""
    left, right, out = matrices(device, size, dtype)
    return 2.0 * size**3 / device.median(lambda: torch.mm(left, right, out=out), share)


def copy_rate(device: Device) -> float:
    """Bytes per second that a copy within the device's memory reads and writes."""
    size = min(COPIED, device.free() // MEMORY_SHARE) if device.cuda else CPU_BYTES
    here = torch.ones(size, dtype=torch.uint8, device=device.device)
    there = torch.empty_like(here)
    return 2.0 * size / device.median(lambda: there.copy_(here), SHARES["copy"])


def host_rates(device: Device) -> Dict[str, float]:
    """Bytes per second from pinned host memory and back: the best of some runs each."""
    size = PINNED if device.cuda else CPU_BYTES
    with near(device.device):
        host = torch.ones(size, dtype=torch.uint8, pin_memory=device.cuda)
        there = torch.empty(size, dtype=torch.uint8, device=device.device)

        def fastest(work: Callable[[], Any], share: float) -> float:
            return min(device.median(work, share / HOST_RUNS) for _ in range(HOST_RUNS))

        to = fastest(lambda: there.copy_(host, non_blocking=True), SHARES["to"])
        back = fastest(lambda: host.copy_(there, non_blocking=True), SHARES["from"])
    return {"to_device": size / to, "from_device": size / back}


@contextlib.contextmanager
def repeatable() -> Iterator[None]:
    """Forbid the atomics that torch allows rocBLAS; cuBLAS is repeatable by default."""
    if not torch.version.hip:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)


def differing(device: Device, size: int, dtype: torch.dtype) -> Dict[str, int]:
    """Elements of repeated products that differ from the first; if any do, of a second series."""
    count, elements = series(device, size, dtype)
    result = {"products": count, "differing": elements}
    if elements:
        result["differing_again"] = series(device, size, dtype)[1]
    return result


def series(device: Device, size: int, dtype: torch.dtype) -> Tuple[int, int]:
    """How many times the same product was computed, and elements that differ from the first."""
    left, right, again = matrices(device, size, dtype)
    first = torch.empty_like(again)
    torch.mm(left, right, out=first)  # as below, so that cuBLAS chooses the same algorithm
    once = max(device.times(lambda: torch.mm(left, right, out=again), 2)[-1], 1e-7)
    count = int(min(PRODUCTS, max(MIN_REPEATS, SHARES["same"] / once)))
    differs = torch.zeros_like(first, dtype=torch.bool)
    for _ in range(count):
        torch.mm(left, right, out=again)
        differs |= again != first
    return count + 1, int(differs.sum())


def run(device: torch.device, uuid: Optional[str] = None) -> Dict[str, Any]:
    """The fields of `doctor.facts.load.Load` without the host's. Raises what a part raises.

    It ends early where heat or power makes the GPU brake, after the first rate at the earliest.
    """
    started = time.perf_counter()
    target, brake = Device(device), Brake(uuid)
    name, half = target.half()
    with wire.stage("calibration"), torch.no_grad():
        size = fitting(target, half)
    result: Dict[str, Any] = {"size": size, "matmul": {}, "unread": {}}
    for field, stage, part in parts(target, size, name, half):
        reason = brake.reason() if result["matmul"] else ""
        if reason:
            result["unread"][field] = "ended early: %s was on" % reason
            continue
        with wire.stage(stage), torch.no_grad():
            measured = part()
        result["matmul"].update(measured.pop("matmul", {}))
        result.update(measured)
    target.empty()
    result["seconds"] = time.perf_counter() - started
    return result


def parts(
    target: Device, size: int, name: str, half: torch.dtype
) -> Iterator[Tuple[str, str, Callable[[], Dict[str, Any]]]]:
    """Field, stage and work of each part of the load, in their order."""

    def rate(kind: str, dtype: torch.dtype, share: float) -> Dict[str, Any]:
        with tf32(kind == "tf32"):
            return {"matmul": {kind: matmul_rate(target, size, dtype, share)}}

    def products() -> Dict[str, Any]:
        with repeatable():
            return dict(differing(target, size, half))

    single = torch.float32
    yield name, name + " matmul", lambda: rate(name, half, SHARES["half"])
    if target.tf32():
        yield "tf32", "tf32 matmul", lambda: rate("tf32", single, SHARES["tf32"])
    yield "fp32", "fp32 matmul", lambda: rate("fp32", single, SHARES["fp32"])
    yield "differing", "the same product again", products
    target.empty()
    yield "copy", "copy within the memory", lambda: {"copy": copy_rate(target)}


def run_host(device: torch.device) -> Dict[str, Any]:
    """The fields of `doctor.facts.load.Load` about copies from and to the host."""
    started = time.perf_counter()
    target = Device(device)
    with wire.stage("copies from and to the host"):
        try:
            result: Dict[str, Any] = dict(host_rates(target))
        except RuntimeError as error:
            if "pin" not in str(error) and "cudaHostAlloc" not in str(error):
                raise
            reason = wire.describe(error)
            result = {"unread": {"to_device": reason, "from_device": reason}}
    target.empty()
    result["seconds"] = time.perf_counter() - started
    return result
