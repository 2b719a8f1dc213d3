"""torch.cuda, attention and NCCL of the pretended GPUs; see pretend_tensors.py."""

from __future__ import annotations

import contextlib
import functools
import types
import warnings
from typing import Any

import pretend_record
import pretend_tensors as tensors
import torch  # noqa: TID253 - this file is run in the training interpreter only

CONFIG, COUNT = tensors.CONFIG, tensors.COUNT
CAPABILITY = tuple(CONFIG["capability"])
MATH, FLASH, EFFICIENT, CUDNN = range(4)
NAMES = {MATH: "math", FLASH: "flash", EFFICIENT: "mem_efficient", CUDNN: "cudnn"}
HALVES = (torch.bfloat16, torch.float16)


def index_of(device: Any = None) -> int:
    """The GPU of torch.cuda's `device` arguments: None, a number, a text, a device."""
    if device is None:
        return int(tensors.ACCELERATOR.pretend_current())
    index = device if isinstance(device, int) else tensors.index_of(device)
    if index is None or not 0 <= index < COUNT:
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return index


def set_device(device: Any) -> None:
    tensors.touch(index_of(device))
    tensors.ACCELERATOR.pretend_set_current(index_of(device))


def synchronize(device: Any = None) -> None:
    tensors.touch(index_of(device))


class Device(contextlib.AbstractContextManager[None]):
    """torch.cuda.device."""

    def __init__(self, device: Any) -> None:
        self.index = index_of(device)

    def __enter__(self) -> None:
        self.before = index_of()
        tensors.ACCELERATOR.pretend_set_current(self.index)

    def __exit__(self, *error: Any) -> None:
        tensors.ACCELERATOR.pretend_set_current(self.before)


class Event:
    """torch.cuda.Event on the pretended clock."""

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        self.time = 0.0

    def record(self, stream: Any = None) -> None:
        synchronize()
        self.time = tensors.CLOCK[index_of()]

    def elapsed_time(self, later: Event) -> float:
        return (later.time - self.time) * 1e3

    def synchronize(self) -> None:
        synchronize()

    def query(self) -> bool:
        return True

    def wait(self, stream: Any = None) -> None: ...


class Stream(contextlib.AbstractContextManager[None]):
    """torch.cuda.Stream: everything has run once it is called."""

    cuda_stream = 0

    def __init__(self, device: Any = None, **_: Any) -> None:
        self.device = torch.device("cuda", index_of(device))

    def __exit__(self, *error: Any) -> None: ...

    def synchronize(self) -> None:
        synchronize(self.device)

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record()
        return event

    def wait_stream(self, stream: Any) -> None: ...

    def wait_event(self, event: Any) -> None: ...

    def query(self) -> bool:
        return True


class Generator(torch._C.Generator):  # type: ignore[misc]
    """torch.Generator, of a GPU too: the numbers are those of the CPU."""

    def __new__(cls, device: Any = "cpu") -> Any:
        made = super().__new__(cls)
        made.of = torch.device(device)
        if made.of.type == "cuda":
            tensors.touch(index_of(made.of))
            made.of = torch.device("cuda", index_of(made.of))
        return made

    def __init__(self, *_: Any, **__: Any) -> None: ...

    @property
    def device(self) -> Any:
        return self.of


def properties(device: Any = None) -> Any:
    index = index_of(device)
    return types.SimpleNamespace(
        name=CONFIG["name"],
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        total_memory=CONFIG["memory"],
        uuid=f"0000000{index}-1111-2222-3333-444444444444",
        is_integrated=int(CONFIG.get("integrated", False)),
        multi_processor_count=CONFIG.get("multi_processor_count", 132),
    )


def memory_of(device: Any = None) -> tuple[int, int]:
    index = index_of(device)
    tensors.touch(index)
    free = CONFIG["memory"] - tensors.RESERVED - tensors.ALLOCATED[index]
    return free, CONFIG["memory"]


def reset_peak(device: Any = None) -> None:
    index = index_of(device)
    tensors.PEAK[index] = tensors.ALLOCATED[index]


def seed(number: int) -> None:
    torch.default_generator.manual_seed(number)


CUDA: dict[str, Any] = {
    "_lazy_init": lambda: None,
    "_is_compiled": lambda: True,
    "is_initialized": lambda: True,
    "init": lambda: pretend_record.fail(None, RuntimeError),
    "is_available": lambda: COUNT > 0,
    "device_count": lambda: COUNT,
    "current_device": index_of,
    "set_device": set_device,
    "device": Device,
    "get_device_name": lambda device=None: properties(device).name,
    "get_device_properties": properties,
    "get_device_capability": lambda device=None: CAPABILITY,
    "get_arch_list": lambda: list(CONFIG["archs"]),
    "mem_get_info": memory_of,
    "synchronize": synchronize,
    "empty_cache": lambda: None,
    "memory_allocated": lambda device=None: tensors.ALLOCATED[index_of(device)],
    "memory_reserved": lambda device=None: tensors.ALLOCATED[index_of(device)],
    "max_memory_allocated": lambda device=None: tensors.PEAK[index_of(device)],
    "max_memory_reserved": lambda device=None: tensors.PEAK[index_of(device)],
    "reset_peak_memory_stats": reset_peak,
    "Event": Event,
    "Stream": Stream,
    "current_stream": Stream,
    "default_stream": Stream,
    "stream": lambda stream: stream or contextlib.nullcontext(),
    "manual_seed": seed,
    "manual_seed_all": seed,
    "get_rng_state": lambda device=None: torch.get_rng_state(),
    "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
    "is_bf16_supported": lambda including_emulation=True: including_emulation or CAPABILITY >= (8,),
    "is_current_stream_capturing": lambda: False,
}


def allowed(backend: int, q: Any, k: Any, mask: Any, dropout: float) -> str:
    """Why a backend does not take a call, "" where it does: the main limits of torch 2.13."""
    fused = torch.backends.cuda
    size, half = q.shape[-1], q.dtype in HALVES
    bf16 = q.dtype != torch.bfloat16 or CAPABILITY >= (8, 0)
    whole = q.shape[1] == k.shape[1]
    tests: dict[int, dict[str, bool]] = {
        FLASH: {
            "it is switched off": fused.flash_sdp_enabled(),
            "it needs half precision": half,
            "it needs compute capability 8.0": CAPABILITY >= (8, 0),
            "it takes no mask": mask is None,
            "its heads have at most 256 dimensions": size <= 256,
        },
        EFFICIENT: {
            "it is switched off": fused.mem_efficient_sdp_enabled(),
            "this GPU has no bf16": bf16,
            "it wants as many heads of keys as of queries": whole,
            "it takes no double": q.dtype != torch.float64,
        },
        CUDNN: {
            "it is switched off": fused.cudnn_sdp_enabled(),
            "it needs half precision": half,
            "it needs compute capability 8.0": CAPABILITY >= (8, 0),
            "its heads have at most 128 dimensions": size <= 128,
            "its dropout is a multiple of 1/16": (dropout * 16) % 1 == 0,
        },
        MATH: {"it is switched off": fused.math_sdp_enabled()},
    }
    return next((reason for reason, fits in tests[backend].items() if not fits), "")


def choice(q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, **_: Any) -> int:
    """The first backend of the order that takes the call; -1 where none does, with warnings."""
    reasons = {}
    for backend in torch._C._get_sdp_priority_order():
        if backend not in NAMES:
            continue
        reasons[backend] = allowed(backend, q, k, attn_mask, dropout_p)
        if not reasons[backend]:
            return int(backend)
    for backend, reason in reasons.items():
        warnings.warn(f"{NAMES[backend]} attention: {reason}", stacklevel=2)
    return -1


def attention_over(plain: Any) -> Any:
    """scaled_dot_product_attention: chooses a backend, computes in fp32 on what is inside."""

    @functools.wraps(plain)
    def attend(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        more = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
        if not isinstance(query, tensors.Pretend):
            return plain(query, key, value, attn_mask, dropout_p, **more)
        if torch.is_autocast_enabled("cuda"):
            dtype = torch.get_autocast_dtype("cuda")
            query, key, value = (each.to(dtype) for each in (query, key, value))
        prefer_cudnn()
        backend = choice(query, key, value, attn_mask, dropout_p)
        if backend < 0:
            raise RuntimeError("No available kernel. Aborting execution.")
        three = (query, key, value)
        gradients = torch.is_grad_enabled() and any(each.requires_grad for each in three)
        planned = (
            NAMES[backend],
            [list(each.shape) for each in three],
            [list(each.stride()) for each in three],
            str(query.dtype),
            attn_mask is not None and list(attn_mask.shape),
            is_causal,
            dropout_p,
            gradients,
        )
        pretend_record.once(attention=planned)
        with torch.autocast("cuda", enabled=False):
            wide = [each if each.dtype == torch.float64 else each.float()
                    for each in (query, key, value)]  # fmt: skip
            mask = attn_mask
            if mask is not None and mask.is_floating_point():
                mask = mask.to(wide[0].dtype)
            result = plain(*wide, mask, dropout_p, **more).to(query.dtype)
        if gradients:
            result.register_hook(lambda gradient: pretend_record.once(backward=planned))
        return result

    return attend


def prefer_cudnn() -> None:
    """As torch does at its first attention call on Hopper and data-centre Blackwell."""
    order = torch._C._get_sdp_priority_order()
    if CAPABILITY[0] in (9, 10) and order[0] != CUDNN:
        rest = [backend for backend in order if backend != CUDNN]
        torch._C._set_sdp_priority_order([CUDNN, *rest])


def install_distributed() -> None:
    """NCCL by gloo, on what is inside the tensors."""
    import torch.distributed as dist

    start, add = dist.init_process_group, dist.all_reduce

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("device_id", None)
        start((backend or "gloo").replace("nccl", "gloo"), *args, **kwargs)

    def all_reduce(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(tensor, tensors.Pretend):
            tensors.touch(tensor.index)
        return add(tensors.inside(tensor), *args, **kwargs)

    dist.init_process_group, dist.all_reduce = init_process_group, all_reduce
    dist.is_nccl_available = lambda: True


def install(module: Any) -> None:
    """Make torch's CPU build answer as one for CUDA on these GPUs."""
    pretend_record.write(**{"import": "torch"})
    version = torch.__version__.partition("+")[0] + "+cu" + CONFIG["cuda"].replace(".", "")
    module.__version__ = torch.torch_version.TorchVersion(version)
    module.version.cuda = CONFIG["cuda"]
    module._C._cuda_getArchFlags = lambda: " ".join(CONFIG["archs"])
    module._C._cuda_getCurrentRawStream = lambda device: 0
    for name, value in CUDA.items():
        setattr(module.cuda, name, value)
    module.Generator = Generator
    module.backends.cudnn.version = lambda: CONFIG["cudnn"]
    module.backends.cudnn.is_available = lambda: True
    module.backends.cuda.is_built = lambda: True
    module.Tensor.pin_memory = lambda self, device=None: self
    functional = module.nn.functional
    attend = attention_over(functional.scaled_dot_product_attention)
    functional.scaled_dot_product_attention = attend
    plain_choice = module._fused_sdp_choice

    def fused_choice(query: Any, *args: Any, **kwargs: Any) -> int:
        pretended = isinstance(query, tensors.Pretend)
        return (choice if pretended else plain_choice)(query, *args, **kwargs)

    module._fused_sdp_choice = fused_choice
    tensors.register()
    install_distributed()
