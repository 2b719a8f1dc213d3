"""Trainings that a user named, on recorded machines.

The orders of LoRA and checkpointing were recorded on a CPU with the versions that they name.
"""

from __future__ import annotations

from typing import Any

from doctor._util.records import Ended
from doctor.facts.facts import Facts
from doctor.facts.own_model import BatchTensor, Compiled, LoraOrder, MemoryPoint, OwnModel, Scaler
from doctor.facts.training import Parameter, Settings, Smoke, Stage, Step

OK = Ended(how="ok", seconds=0.4)
GIB = 2**30
STAGES = ("allocate", "forward", "loss", "backward", "optimizer", "compare")
LAYERS = tuple(f"model.layers.{layer}" for layer in range(2))
PARTS = ("input_layernorm", "self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj")
WEIGHTS = (
    "model.embed_tokens.weight",
    *(f"{layer}.{part}.weight" for layer in LAYERS for part in PARTS),
)
ADAPTERS = tuple(
    f"base_model.model.{layer}.self_attn.{part}.lora_{side}.default.weight"
    for layer in LAYERS
    for part in ("q_proj", "v_proj")
    for side in "AB"
)
HEAD = "base_model.model.lm_head.modules_to_save.default.weight"
NO_GRAPH = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"
AMP = (
    'NotImplementedError: "_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for '
    "'BFloat16'"
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/data/runs/train.py", line 31, in make\n'
    '    data = load("corpus.bin")\n'
    "FileNotFoundError: [Errno 2] No such file or directory: 'corpus.bin'"
)


def parameter(name: str, **fields: Any) -> Parameter:
    known = {"dtype": "float32", "size": 4096, "had_gradient": True, "finite": True, "moved": True}
    return Parameter(name=name, **known | fields)


def smoke(*names: str, precision: str = "bf16", device: str = "cuda:0", **fields: Any) -> Smoke:
    known: dict[str, Any] = {
        "device": device,
        "precision": precision,
        "recipe": "amp",
        "lr": 3e-4,
        "stages": tuple(Stage(name=name, ended=OK) for name in STAGES),
        "steps": tuple(Step(loss=10.4 - step, grad_norm=2.1, lr=3e-4) for step in range(3)),
        "parameters": tuple(parameter(name) for name in names or WEIGHTS),
        "peak_bytes": 3 * GIB,
        "seconds": 1.9,
    }
    return Smoke(**known | fields)


def own(**fields: Any) -> OwnModel:
    known: dict[str, Any] = {
        "description": "train.py:make",
        "built": OK,
        "versions": {"transformers": "5.23.0"},
        "parameters": 1_240_000_000,
        "trainable": 1_240_000_000,
        "smoke": smoke(),
        "settings": Settings(
            when="after the model's code",
            tf32_matmul=True,
            sdp_enabled={"flash": True, "mem_efficient": True, "cudnn": True, "math": True},
            deterministic=False,
            attention="sdpa",
        ),
        "batch": (
            BatchTensor(name="input_ids", dtype="int64", shape=(4, 2048), low=0.0, high=128_255.0),
            BatchTensor(name="labels", dtype="int64", shape=(4, 2048), low=-100.0, high=128_255.0),
        ),
        "points": (
            MemoryPoint(batch=2, length=2048, peak_bytes=27 * GIB),
            MemoryPoint(batch=4, length=2048, peak_bytes=34 * GIB),
        ),
        "saved_weights": 4_960_000_000,
        "saved_optimizer": 9_920_000_000,
    }
    return OwnModel(**known | fields)


def orders(*, old: bool) -> tuple[LoraOrder, ...]:
    """What five combinations did with transformers 4.57.6 (old) and 5.23.0."""
    known: dict[str, Any] = {"trainable": 8, "adapter_dtypes": ("float32",), "recomputed": True}
    place = ("checkpointing first", "LoRA first")
    orders = [
        LoraOrder(order=order, reentrant=reentrant, ended=OK, **known)  # type: ignore[arg-type]
        for reentrant in (False, True)
        for order in place
    ]
    whole = {**known, "trainable": 9, "modules_to_save": ("lm_head",)}
    if old:
        raised = Ended(how="error", detail=NO_GRAPH, seconds=0.1)
        orders[3] = LoraOrder(order="LoRA first", reentrant=True, ended=raised)
        whole |= {"without_gradient": ADAPTERS, "recomputed": False}
    return (*orders, LoraOrder(order="LoRA first", reentrant=True, ended=OK, **whole))


def lora(*, old: bool) -> OwnModel:
    return own(
        description="models/llama (2 of 4 layers, random weights, random tokens)",
        versions={
            "transformers": "4.57.6" if old else "5.23.0",
            "peft": "0.17.1" if old else "0.21.2",
        },
        parameters=25_760,
        trainable=1024,
        smoke=smoke(*ADAPTERS, device="cpu", peak_bytes=None),
        saved_weights=7693,
        saved_optimizer=15_131,
        points=(
            MemoryPoint(batch=1, length=64, peak_bytes=391_745_536),
            MemoryPoint(batch=2, length=64, peak_bytes=391_745_536),
        ),
        whole=False,
        lora=orders(old=old),
    )


def compiled(error: float) -> Compiled:
    step = {"loss": 10.4, "grad_norm": 2.1, "lr": 0.0}
    ended = Ended(how="ok", seconds=41.0)
    return Compiled(ended=ended, eager=Step(**step), compiled=Step(**step), error=error)


def machines() -> dict[str, Facts]:
    """Name of the file -> its facts."""
    from recorded import cpu_only
    from recorded_parts import H100, T4, TORCH_2_15, job, machine
    from recorded_parts import smoke as small

    made = job(model="train.py:make")
    recorded = "recorded on a CPU: LoRA's orders; the machine around them is made"
    cut = tuple(
        parameter(name, had_gradient=name == HEAD, moved=name == HEAD) for name in (*ADAPTERS, HEAD)
    )
    norms = tuple(
        parameter(name, dtype="bfloat16", moved="layernorm" not in name) for name in WEIGHTS
    )
    broken = tuple(parameter(name, finite=False) for name in WEIGHTS)
    nan = (Step(loss="nan", grad_norm="nan", lr=3e-4),) * 3
    amp = Ended(how="error", detail=f"backward: {AMP}", seconds=0.1)
    stopped = (
        *(Stage(name=name, ended=OK) for name in STAGES[:3]),
        Stage(name="backward", ended=amp),
    )
    half = Scaler(dtype="bfloat16", of="the model", ended=Ended(how="error", detail=AMP))
    missing = Ended(how="error", detail=TRACEBACK.splitlines()[-1])
    vit = "the model does not work on tokens (no vocab_size): name a factory with --model"
    beyond = OwnModel(
        description="models/vit", built=Ended(how="error", detail=vit), unsupported=True
    )
    return {
        "own_fp16": machine(
            T4,
            torch=TORCH_2_15,
            job=job(model="train.py:make", compile=True),
            smoke=small("fp16"),
            own=own(
                smoke=smoke(precision="fp16"),
                scalers=(Scaler(dtype="float32", of="the model", ended=OK),),
                compiled=compiled(6e-4),
                parameters=60_000_000,
                trainable=60_000_000,
                saved_weights=240_000_000,
                saved_optimizer=480_000_000,
                points=(
                    MemoryPoint(batch=1, length=512, peak_bytes=2 * GIB),
                    MemoryPoint(batch=2, length=512, peak_bytes=3 * GIB),
                ),
            ),
        ),
        "own_lora": cpu_only().with_(
            origin=recorded,
            job=job(device="cpu", hf="models/llama", lora=4),
            own=lora(old=False),
        ),
        "own_lora_transformers4.57": cpu_only().with_(
            origin=recorded,
            job=job(device="cpu", hf="models/llama", lora=4),
            own=lora(old=True),
        ),
        "own_factory_raises": machine(
            H100,
            torch=TORCH_2_15,
            job=made,
            own=OwnModel(description="train.py:make", built=missing, traceback=TRACEBACK),
        ),
        "own_silent_adapters": machine(
            H100,
            torch=TORCH_2_15,
            job=job(model="train.py:make", compile=True),
            own=own(smoke=smoke(parameters=cut), compiled=compiled(0.7)),
        ),
        "own_nan": machine(
            H100, torch=TORCH_2_15, job=made, own=own(smoke=smoke(steps=nan, parameters=broken))
        ),
        "own_norms_in_bf16": machine(
            H100,
            torch=TORCH_2_15,
            job=job(model="train.py:make", recipe="pure-bf16"),
            smoke=small("bf16", recipe="pure-bf16"),
            own=own(smoke=smoke(recipe="pure-bf16", parameters=norms)),
        ),
        "own_scaler_bf16": machine(
            H100,
            torch=TORCH_2_15,
            job=job(model="train.py:make", precision="fp16"),
            smoke=small("fp16"),
            own=own(
                smoke=smoke(precision="fp16", stages=stopped, steps=(), parameters=()),
                scalers=(half,),
            ),
        ),
        "own_images": machine(
            T4,
            torch=TORCH_2_15,
            job=job(hf="models/vit", lora=8, compile=True),
            smoke=small("fp16"),
            own=beyond,
        ),
    }
