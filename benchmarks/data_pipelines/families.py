"""Tokenizers of the model families: trained here on local words, with the chat templates that TRL
ships and the special tokens that those name; Mistral, Zephyr and ChatML in the forms of their model
cards. Small models of each.
"""

from __future__ import annotations

import random
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

GENERATION = "{% generation %}"
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}"
    "{% if m['role'] == 'assistant' %}"
    "{% generation %}{{ m['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}{% else %}"
    "{{ m['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
ZEPHYR = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>\n' }}{% if m['role'] == 'assistant' %}"
    "{% generation %}{{ m['content'] + eos_token }}{% endgeneration %}{{ '\n' }}{% else %}"
    "{{ m['content'] + eos_token + '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}"
    "{{ '[INST] ' + m['content'] + ' [/INST]' }}{% else %}"
    "{% generation %}{{ ' ' + m['content'] + eos_token }}{% endgeneration %}{% endif %}{% endfor %}"
)
OWN = {"chatml": CHATML, "zephyr": ZEPHYR, "mistral": MISTRAL}
FAMILIES = {
    # template, bos, eos, pad, the tokens at which generation stops
    "llama3": ("llama3", "<|begin_of_text|>", "<|eot_id|>", "<|pad|>", ("<|eot_id|>",)),
    "qwen25": ("qwen2_5", None, "<|im_end|>", "<|endoftext|>", ("<|im_end|>", "<|endoftext|>")),
    "qwen3": ("qwen3", None, "<|im_end|>", "<|endoftext|>", ("<|im_end|>", "<|endoftext|>")),
    "gemma": ("gemma", "<bos>", "<eos>", "<pad>", ("<eos>", "<end_of_turn>")),
    "phi3": ("phi3", "<s>", "<|endoftext|>", "<|endoftext|>", ("<|endoftext|>", "<|end|>")),
    "deepseek": (
        "deepseekv3", "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>",
        ("<\uff5cend\u2581of\u2581sentence\uff5c>",),
    ),
    "chatml": ("chatml", None, "<|im_end|>", "<|pad|>", ("<|im_end|>",)),
    "zephyr": ("zephyr", "<s>", "</s>", "</s>", ("</s>",)),
    "mistral": ("mistral", "<s>", "</s>", "<pad>", ("</s>",)),
}  # fmt: skip
SPECIAL = re.compile(r"<\|[^\s|<>]{2,32}\|>|</?[a-z_]{3,16}>|<\uff5c[^\uff5c]{3,32}\uff5c>")
WORDS = [
    "the",
    "a",
    "of",
    "and",
    "to",
    "in",
    "model",
    "train",
    "data",
    "step",
    "loss",
    "rate",
    "batch",
    "token",
    "answer",
    "question",
    "river",
    "stone",
    "light",
    "green",
    "seven",
    "river",
    "bread",
    "window",
    "letter",
    "garden",
    "music",
    "paper",
    "winter",
    "early",
    "almost",
    "between",
    "carry",
    "follow",
    "listen",
    "remember",
    "build",
    "travel",
    "measure",
    "compare",
    "describe",
    "explain",
    "number",
    "table",
]


def templates() -> Path:
    spec = find_spec("trl")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "chat_templates"


def template(family: str, training: bool = False) -> str:
    name = FAMILIES[family][0]
    if name in OWN:
        return OWN[name] if training else re.sub(r"{% (?:end)?generation %}", "", OWN[name])
    file = templates() / (f"{name}_training.jinja" if training else f"{name}.jinja")
    return file.read_text("utf-8")


def sentence(draw: random.Random, low: int, high: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(low, high)))


@cache
def trained(family: str) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    draw = random.Random(1)
    texts = [sentence(draw, 5, 30) for _ in range(300)]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    )
    return made


def tokenizer(family: str, training: bool = False) -> PreTrainedTokenizerFast:
    _, bos, eos, pad, stops = FAMILIES[family]
    text = template(family)
    named = set(SPECIAL.findall(text)) if family != "zephyr" else set()
    if family == "mistral":
        named |= {"[INST]", "[/INST]"}
    named |= {*stops, eos, pad, *([bos] if bos else [])}
    if family == "phi3":
        named |= {"<|user|>", "<|assistant|>", "<|system|>"}
    named = {each for each in named if each not in ("<think>", "</think>", "<br>")}
    made = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(trained(family).to_str()),
        bos_token=bos, eos_token=eos, pad_token=pad,
    )  # fmt: skip
    made.add_special_tokens({"additional_special_tokens": sorted(named - {bos, eos, pad})})
    made.chat_template = template(family, training)
    return made


def model(family: str, made: Any, **fields: Any) -> LlamaForCausalLM:
    import torch

    torch.manual_seed(0)
    stops = made.convert_tokens_to_ids(list(FAMILIES[family][4]))
    config = LlamaConfig(
        vocab_size=len(made), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        bos_token_id=made.bos_token_id, eos_token_id=made.eos_token_id,
        pad_token_id=made.pad_token_id, **fields,
    )  # fmt: skip
    built = LlamaForCausalLM(config)
    built.generation_config.eos_token_id = stops
    return built


def chats(count: int = 64, seed: int = 3, turns: int = 1, long: bool = False) -> list[Any]:
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        messages = []
        for _ in range(turns):
            messages.append({"role": "user", "content": sentence(draw, 4, 12)})
            words = (20, 60) if long else (4, 14)
            messages.append({"role": "assistant", "content": sentence(draw, *words)})
        rows.append(messages)
    return rows
