"""transformers' attn_implementation values on a tiny Llama, against eager in fp32.

It imports transformers, reads one request from stdin, {"device": "cuda:0", "precision": "bf16"},
and sends one note per implementation, {"implementation": {Implementation of doctor.facts.load}},
and an empty answer. torch and transformers are imported inside. No weights are read or
downloaded: all implementations get the same randomly initialized, rounded weights.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from typing import TYPE_CHECKING, Any, Dict, List, Tuple, Union

from ... import wire

if TYPE_CHECKING:
    import torch

SHAPE: Dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.05,
}
BATCH, LENGTH, SEED = 2, 96, 23
Result = Tuple["torch.Tensor", List["torch.Tensor"]]
"""Logits, and the gradients that attention passes on: of its projections."""


def available(device: str, precision: str) -> List[str]:
    """eager and sdpa, and flash_attention_2 on a GPU where its package is there; not in fp32."""
    usable = device.startswith("cuda") and precision != "fp32"
    flash = usable and importlib.util.find_spec("flash_attn") is not None
    return ["eager", "sdpa"] + (["flash_attention_2"] if flash else [])


def build(name: str, device: str, dtype: torch.dtype) -> torch.nn.Module:
    """A tiny Llama with one implementation; its weights are rounded to `dtype`."""
    import torch

    transformers: Any = importlib.import_module("transformers")
    torch.manual_seed(SEED)
    config = transformers.LlamaConfig(**SHAPE, attn_implementation=name)
    model: torch.nn.Module = transformers.LlamaForCausalLM(config).to(dtype).to(device)
    return model.train()


def step(model: torch.nn.Module, tokens: torch.Tensor) -> Result:
    import torch

    model.zero_grad()
    logits = model(input_ids=tokens, use_cache=False).logits
    loss: Any = torch.nn.functional.cross_entropy(
        logits[:, :-1].float().flatten(0, 1), tokens[:, 1:].flatten()
    )
    loss.backward()
    of_attention = [p for name, p in model.named_parameters() if ".self_attn." in name]
    return logits.detach(), [weight.grad for weight in of_attention if weight.grad is not None]


def relative_error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Relative Frobenius error."""
    actual, expected = result.cpu().double(), exact.cpu().double()
    return float((actual - expected).norm() / expected.norm())


def largest(errors: List[float]) -> Union[float, str]:
    """The largest error; NaN counts as larger than any number."""
    return wire.number(max(errors, key=lambda error: (error != error, error)))


def attempt(
    name: str, device: str, dtype: torch.dtype, tokens: torch.Tensor, exact: Result
) -> Dict[str, Any]:
    """doctor.facts.load.Implementation of one."""
    started = time.perf_counter()
    try:
        logits, gradients = step(build(name, device, dtype), tokens)
    except Exception as error:
        seconds = time.perf_counter() - started
        return {"name": name, "ended": {"how": "error", "detail": wire.describe(error)[:500],
                                        "seconds": seconds}}  # fmt: skip
    ended = {"how": "ok", "seconds": time.perf_counter() - started}
    errors = {
        "error": wire.number(relative_error(logits, exact[0])),
        "grad_error": largest([relative_error(*pair) for pair in zip(gradients, exact[1])]),
    }
    return dict(errors, name=name, ended=ended)


def import_libraries() -> None:
    """Import torch, transformers and the model's class, which transformers imports only when it
    is used."""
    with wire.stage("import transformers"):
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        importlib.import_module("torch")
        importlib.import_module("transformers").LlamaForCausalLM  # noqa: B018


def run(device: str, precision: str) -> None:
    """Try every implementation."""
    import torch

    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[precision]
    if device == "cpu":
        torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(SEED)
    tokens = torch.randint(SHAPE["vocab_size"], (BATCH, LENGTH), generator=draw).to(device)
    with wire.stage("eager in fp32"):
        rounded = build("eager", device, dtype).float()
        exact = step(rounded, tokens)
    for name in available(device, precision):
        with wire.stage(name):
            record = attempt(name, device, dtype, tokens, exact)
        wire.send(note={"implementation": record})


def main() -> None:
    try:
        requests = wire.requests()
        import_libraries()
        request = next(requests)
        run(request["device"], request["precision"])
    except Exception as error:
        wire.send(error=wire.describe(error))
        os._exit(1)
    wire.send(answer={})
    os._exit(0)
