"""Directories as frameworks save them, of small models that were trained. All are healthy."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import enum
import json
import pathlib
import pickle
import random
import struct
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

SIZES = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class Mode(enum.Enum):
    """A choice of one's own."""

    FAST = "fast"


@dataclasses.dataclass
class Settings:
    """Settings of one's own."""

    rate: float = 1e-3
    mode: Mode = Mode.FAST
    place: pathlib.Path = pathlib.Path("/data")


Point = collections.namedtuple("Point", "x y")


def trained(model: Any, steps: int = 12, optimizer: Any = None) -> Any:
    """The optimizer after some steps on any loss that all parameters are part of."""
    chosen = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        chosen.zero_grad()
        sum((p * torch.randn_like(p)).sum() for p in model.parameters()).backward()
        chosen.step()
    return chosen


def plain_model() -> Any:
    """A model whose norm was trained before, as in a backbone that is frozen now."""
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 3)
    )
    torch.nn.init.uniform_(model[1].weight, 0.5, 1.5)
    return model


def transformer(kind: str, **more: Any) -> Any:
    """A causal or masked model of transformers, two layers of 16."""
    import transformers

    classes = {
        "llama": ("LlamaConfig", "LlamaForCausalLM", {}),
        "tied": ("LlamaConfig", "LlamaForCausalLM", {"tie_word_embeddings": True}),
        "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {"head_dim": 8}),
        "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {"head_dim": 8}),
        "mistral": ("MistralConfig", "MistralForCausalLM", {}),
        "mixtral": ("MixtralConfig", "MixtralForCausalLM", {"num_local_experts": 2}),
        "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", {}),
        "gpt2": (
            "GPT2Config",
            "GPT2LMHeadModel",
            {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16},
        ),
        "neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {}),
        "opt": (
            "OPTConfig",
            "OPTForCausalLM",
            {"ffn_dim": 24, "word_embed_proj_dim": 8, "max_position_embeddings": 16},
        ),
        "bert": ("BertConfig", "BertForSequenceClassification", {"max_position_embeddings": 16}),
        "albert": ("AlbertConfig", "AlbertForMaskedLM", {"embedding_size": 8}),
        "electra": ("ElectraConfig", "ElectraForPreTraining", {"embedding_size": 8}),
        "t5": (
            "T5Config",
            "T5ForConditionalGeneration",
            {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2},
        ),
        "bart": (
            "BartConfig",
            "BartForConditionalGeneration",
            {"d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 24,
             "decoder_ffn_dim": 24, "encoder_attention_heads": 2, "decoder_attention_heads": 2},
        ),
        "mamba": ("MambaConfig", "MambaForCausalLM", {"state_size": 4}),
        "vit": ("ViTConfig", "ViTForImageClassification", {"image_size": 16, "patch_size": 8}),
        "clip": (
            "CLIPConfig",
            "CLIPModel",
            {"text_config": {**SIZES, "max_position_embeddings": 16},
             "vision_config": {**SIZES, "image_size": 16, "patch_size": 8}},
        ),
        "whisper": (
            "WhisperConfig",
            "WhisperForConditionalGeneration",
            {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "num_mel_bins": 8,
             "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "encoder_attention_heads": 2,
             "decoder_attention_heads": 2, "max_source_positions": 16, "max_target_positions": 16,
             "decoder_start_token_id": 1},
        ),
        "resnet": (
            "ResNetConfig",
            "ResNetForImageClassification",
            {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
        ),
        "swin": (
            "SwinConfig",
            "SwinForImageClassification",
            {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1],
             "num_heads": [1, 2], "window_size": 2},
        ),
    }  # fmt: skip
    config, model, special = classes[kind]
    settings = {} if kind in ("clip", "swin") else SIZES
    configured = getattr(transformers, config)(**{**settings, **special, **more})
    return getattr(transformers, model)(configured)


TRANSFORMERS = (
    *("llama", "tied", "qwen3", "gemma2", "mistral", "mixtral", "olmo2", "gpt2", "neox", "opt"),
    *("bert", "albert", "electra", "t5", "bart", "mamba", "vit", "clip", "whisper", "resnet"),
    "swin",
)


def saved_transformer(folder: Path, kind: str) -> None:
    model = transformer(kind)
    trained(model, 2)
    model.save_pretrained(folder)


def sharded(folder: Path) -> None:
    model = transformer("llama")
    trained(model, 2)
    model.save_pretrained(folder, max_shard_size="4KB")


def trainer(folder: Path, kind: str = "llama", **arguments: Any) -> None:
    """One checkpoint of transformers' Trainer."""
    import transformers

    model = transformer(kind)
    ids = torch.randint(3, 40, (6,))
    rows = [{"input_ids": ids, "labels": ids}] * 16
    defaults = {"max_steps": 12, "save_steps": 12, "report_to": [], "use_cpu": True}
    args = transformers.TrainingArguments(
        output_dir=str(folder), disable_tqdm=True, logging_steps=1, learning_rate=1e-3,
        **{**defaults, **arguments},
    )  # fmt: skip
    transformers.Trainer(model, args, train_dataset=rows).train()
    last = folder / "checkpoint-12"
    for each in last.iterdir():
        each.rename(folder / each.name)
    last.rmdir()


def trainer_with_own_arguments(folder: Path) -> None:
    """training_args.bin of a class of one's own, with an enumeration in it."""
    trainer(folder)
    own = collections.OrderedDict(settings=Settings(), when=datetime.datetime(2026, 1, 2))
    torch.save(own, folder / "training_args.bin")


def adapter(folder: Path, kind: str) -> None:
    import peft

    config = {
        "lora": lambda: peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]),
        "all": lambda: peft.LoraConfig(r=2, target_modules="all-linear"),
        "dora": lambda: peft.LoraConfig(r=2, target_modules=["q_proj"], use_dora=True),
        "pattern": lambda: peft.LoraConfig(
            r=4, target_modules=["q_proj", "v_proj"], rank_pattern={"v_proj": 2}
        ),
        "saved": lambda: peft.LoraConfig(
            r=2, target_modules=["q_proj"], modules_to_save=["lm_head"]
        ),
        "regex": lambda: peft.LoraConfig(r=2, target_modules=r".*\.(q|k)_proj"),
        "embedded": lambda: peft.LoraConfig(r=2, target_modules=["embed_tokens", "q_proj"]),
        "ia3": lambda: peft.IA3Config(target_modules=["k_proj"], feedforward_modules=[]),
        "loha": lambda: peft.LoHaConfig(r=2, target_modules=["q_proj"]),
        "prompt": lambda: peft.PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
    }[kind]()
    model = peft.get_peft_model(transformer("llama"), config)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2)
    for _ in range(12):
        optimizer.zero_grad()
        sum((p * torch.randn_like(p)).sum() for p in parameters).backward()
        optimizer.step()
    model.save_pretrained(folder)
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")


def accelerated(folder: Path, custom: bool) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = plain_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    rows = torch.utils.data.DataLoader(list(torch.randn(8, 8)), batch_size=4, shuffle=True)
    model, optimizer, schedule, rows = accelerator.prepare(model, optimizer, schedule, rows)
    trained(model, 12, optimizer)
    if custom:
        accelerator.register_for_checkpointing(torch.optim.lr_scheduler.StepLR(optimizer, 2))
    accelerator.save_state(str(folder))


def lightning(folder: Path) -> None:
    import pytorch_lightning as pl

    class Net(pl.LightningModule):
        def __init__(self, width: int = 16) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.net = plain_model()

        def training_step(self, batch: Any, _: int) -> Any:
            return self.net(batch).square().mean()

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 3)]

    runner = pl.Trainer(
        max_steps=12, logger=False, enable_progress_bar=False, enable_model_summary=False,
        accelerator="cpu", default_root_dir=str(folder), enable_checkpointing=False,
    )  # fmt: skip
    runner.fit(Net(), torch.utils.data.DataLoader(list(torch.randn(64, 8)), batch_size=4))
    runner.save_checkpoint(folder / "last.ckpt")


def state_dict(folder: Path, **how: Any) -> None:
    model = plain_model()
    trained(model)
    torch.save(model.state_dict(), folder / "model.pt", **how)


def whole_state(folder: Path, optimizer: str = "AdamW") -> None:
    """What people write themselves: model, optimizer, schedule, random states, settings."""
    import numpy

    model = plain_model()
    kinds = {"SGD": {"momentum": 0.9}, "Muon": {}}
    parameters = list(model.parameters())
    if optimizer == "Muon":
        parameters = [p for p in parameters if p.ndim == 2]
    chosen = getattr(torch.optim, optimizer)(parameters, lr=1e-2, **kinds.get(optimizer, {}))
    trained(model, 12, chosen)
    torch.save(
        {
            "model": model.state_dict(), "optimizer": chosen.state_dict(), "step": 12,
            "rng": torch.get_rng_state(), "python_rng": random.getstate(),
            "numpy_rng": numpy.random.get_state()[1].tolist(), "loss": [0.3, 0.2],
        },
        folder / "ckpt.pt",
    )  # fmt: skip


def beside(folder: Path, name: str, value: Any, *, torch_file: bool = False) -> None:
    """Good weights with a pickle of one's own beside them."""
    from safetensors.torch import save_file

    save_file({"layer.weight": torch.randn(4, 4)}, str(folder / "model.safetensors"))
    if torch_file:
        torch.save(value, folder / name)
        return
    with (folder / name).open("wb") as file:
        pickle.dump(value, file)


def random_states(folder: Path) -> None:
    import numpy

    states = {
        "python": random.getstate(), "numpy": numpy.random.get_state(), "cpu": torch.get_rng_state()
    }  # fmt: skip
    beside(folder, "rng_state.pth", states, torch_file=True)


def generators(folder: Path) -> None:
    import numpy

    beside(folder, "random_states_0.pkl", [numpy.random.default_rng(0), numpy.random.RandomState()])


def vocabulary(folder: Path) -> None:
    words = collections.Counter(["the", "cat", "sat", "on", "the", "mat"])
    beside(folder, "vocab.pkl", {"words": words, "sizes": {1, 2}, "at": datetime.date(2026, 1, 1)})


def arrays(folder: Path) -> None:
    import numpy

    beside(folder, "mean.pkl", {"mean": numpy.zeros(4), "table": numpy.arange(4, dtype="i8")})
    numpy.savez(folder / "stats.npz", mean=numpy.zeros(4), std=numpy.ones(4))
    numpy.save(folder / "labels.npy", numpy.array(["a", "b"], dtype=object), allow_pickle=True)


def distributed(folder: Path) -> None:
    import torch.distributed.checkpoint as dcp

    model = plain_model()
    optimizer = trained(model)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 12}
    dcp.save(state, checkpoint_id=str(folder))


def torchtitan(folder: Path) -> None:
    """Optimizer by names, with the state of training and loader, as torchtitan keeps them."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    model = plain_model()
    optimizer = trained(model)
    dcp.save(
        {
            "model": model.state_dict(),
            "optimizer": get_optimizer_state_dict(model, optimizer),
            "train_state": {"step": 12}, "lr_scheduler": {"last_epoch": 12},
        },
        checkpoint_id=str(folder),
    )  # fmt: skip


def nanogpt(folder: Path) -> None:
    model = plain_model()
    optimizer = trained(model)
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": 12,
         "model_args": {"n_layer": 2}, "best_val_loss": torch.tensor(1.0), "config": {"lr": 1e-3}},
        folder / "ckpt.pt",
    )  # fmt: skip


def deepspeed(folder: Path) -> None:
    """Without ZeRO: one file of the engine with module and optimizer."""
    model = plain_model()
    optimizer = trained(model)
    step = folder / "global_step12"
    step.mkdir()
    (folder / "latest").write_text("global_step12")
    torch.save(
        {"module": model.state_dict(), "optimizer": optimizer.state_dict(), "global_steps": 12,
         "lr_scheduler": None, "dp_world_size": 1, "mp_world_size": 1, "ds_version": "0.18.0"},
        step / "mp_rank_00_model_states.pt",
    )  # fmt: skip


def sentence_transformers(folder: Path) -> None:
    from safetensors.torch import save_file

    saved_transformer(folder, "bert")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text('{"word_embedding_dimension": 16}')
    (folder / "2_Dense").mkdir()
    save_file({"linear.weight": torch.randn(8, 16)}, str(folder / "2_Dense/model.safetensors"))
    (folder / "modules.json").write_text("[]")


def pipeline(folder: Path) -> None:
    from safetensors.torch import save_file

    index = {"_class_name": "StableDiffusionPipeline"}
    for part, library in (("unet", "diffusers"), ("vae", "diffusers")):
        (folder / part).mkdir()
        index[part] = [library, "Model"]  # type: ignore[assignment]
        save_file(
            {"conv.weight": torch.randn(4, 4, 3, 3)},
            str(folder / part / "diffusion_pytorch_model.safetensors"),
        )
        (folder / part / "config.json").write_text('{"_class_name": "Model"}')
    (folder / "model_index.json").write_text(json.dumps(index))


def gguf(folder: Path) -> None:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    data = torch.randn(32).numpy().tobytes()
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1)
    head += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    head += text("blk.0.attn_norm.weight") + struct.pack("<IQIQ", 1, 32, 0, 0)
    (folder / "model.gguf").write_bytes(head + bytes(-len(head) % 32) + data)


def consolidated(folder: Path) -> None:
    torch.save({"tok_embeddings.weight": torch.randn(40, 16)}, folder / "consolidated.00.pth")
    (folder / "params.json").write_text('{"dim": 16, "n_layers": 2}')


def hub_cache(folder: Path) -> None:
    snapshot = folder / "snapshots/abc"
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text("abc")
    saved_transformer(snapshot, "llama")


def ema(folder: Path) -> None:
    model = plain_model()
    trained(model)
    average = copy.deepcopy(model)
    trained(model)
    torch.save(
        {"state_dict": model.state_dict(), "ema": average.state_dict(), "epoch": 3},
        folder / "checkpoint.pth",
    )


def frozen_backbone(folder: Path) -> None:
    """Only the last layer was trained."""
    model = plain_model()
    optimizer = trained(model[3])
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "m.pt")


def with_tokenizer(folder: Path) -> None:
    saved_transformer(folder, "llama")
    words = {f"w{number}": number for number in range(38)}
    tokens = [{"id": 38, "content": "<pad>", "special": True}]
    tokenizer = {"added_tokens": tokens, "model": {"type": "WordLevel", "vocab": words}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text('{"pad_token": "<pad>"}')
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "pad_token_id": 38}))
    (folder / "generation_config.json").unlink()


def folders() -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Each with what makes it."""
    for kind in TRANSFORMERS:
        yield f"transformers {kind}", lambda folder, kind=kind: saved_transformer(folder, kind)  # type: ignore[misc]
    for kind in (
        "lora",
        "all",
        "dora",
        "pattern",
        "saved",
        "regex",
        "embedded",
        "ia3",
        "loha",
        "prompt",
    ):
        yield f"peft {kind}", lambda folder, kind=kind: adapter(folder, kind)  # type: ignore[misc]
    for name in ("AdamW", "SGD", "Adafactor", "RMSprop", "NAdam", "Adagrad", "Muon"):
        yield f"torch {name}", lambda folder, name=name: whole_state(folder, name)  # type: ignore[misc]
    yield "trainer", trainer
    yield "trainer gpt2", lambda folder: trainer(folder, "gpt2")
    yield "trainer sgd", lambda folder: trainer(folder, optim="sgd", lr_scheduler_type="cosine")
    yield "trainer adafactor", lambda folder: trainer(folder, optim="adafactor")
    yield "trainer own arguments", trainer_with_own_arguments
    yield "sharded", sharded
    yield "accelerate", lambda folder: accelerated(folder, custom=False)
    yield "accelerate custom", lambda folder: accelerated(folder, custom=True)
    yield "lightning", lightning
    yield "state_dict", state_dict
    yield "old form", lambda folder: state_dict(folder, _use_new_zipfile_serialization=False)
    yield "dcp", distributed
    yield "torchtitan", torchtitan
    yield "nanogpt", nanogpt
    yield "deepspeed", deepspeed
    yield "sentence-transformers", sentence_transformers
    yield "diffusers", pipeline
    yield "gguf", gguf
    yield "consolidated", consolidated
    yield "hub cache", hub_cache
    yield "ema", ema
    yield "frozen backbone", frozen_backbone
    yield "tokenizer", with_tokenizer
    yield "random states", random_states
    yield "generators", generators
    yield "vocabulary", vocabulary
    yield "arrays", arrays


def make(folder: Path, maker: Callable[[Path], None]) -> None:
    """One of them, quietly and reproducibly."""
    torch.manual_seed(0)
    folder.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        maker(folder)
