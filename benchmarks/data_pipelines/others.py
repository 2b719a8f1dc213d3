"""Pipelines beside supervised fine-tuning: preference data, masked and translated text, classes,
images, streams, Lightning, and loops without a library; each with the faults that occur in it.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from functools import partial
from typing import Any

import families
import torch
from datasets import Dataset
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

FOLDER = "doctor-data-"


def arguments(kind: Any, **fields: Any) -> Any:
    folder = tempfile.mkdtemp(prefix=FOLDER)
    return kind(folder, use_cpu=True, report_to="none", per_device_train_batch_size=4, **fields)


# Preference data


def pairs(fault: str = "") -> list[Any]:
    draw, rows = random.Random(1), []
    for chat in families.chats():
        good, bad = families.sentence(draw, 6, 20), families.sentence(draw, 6, 20)
        bad = good if fault == "equal" else bad
        if fault == "someequal" and draw.random() < 0.2:
            bad = good
        low, high = (8.0, 2.0) if fault == "swapped" else (2.0, 8.0)
        rows.append({
            "prompt": chat[:1], "chosen": [{"role": "assistant", "content": good}],
            "rejected": [{"role": "assistant", "content": bad}],
            **({"score_chosen": high, "score_rejected": low} if fault != "equal" else {}),
        })  # fmt: skip
    return rows


def dpo(fault: str = "") -> Any:
    from trl import DPOConfig, DPOTrainer

    made = families.tokenizer("qwen3")
    model = families.model("qwen3", made)
    data = Dataset.from_list(pairs(fault))
    return DPOTrainer(model=model, ref_model=families.model("qwen3", made), train_dataset=data,
                      args=arguments(DPOConfig), processing_class=made)  # fmt: skip


def preference(fault: str = "") -> Any:
    return {"train": pairs(fault), "tokenizer": families.tokenizer("qwen3")}


def kto() -> Any:
    from trl import KTOConfig, KTOTrainer

    made = families.tokenizer("llama3")
    draw = random.Random(2)
    rows = [{"prompt": c[:1], "completion": c[1:], "label": draw.random() < 0.5}
            for c in families.chats()]  # fmt: skip
    return KTOTrainer(
        model=families.model("llama3", made), ref_model=families.model("llama3", made),
        args=arguments(KTOConfig), processing_class=made, train_dataset=Dataset.from_list(rows),
    )  # fmt: skip


def grpo() -> Any:
    from trl import GRPOConfig, GRPOTrainer

    made = families.tokenizer("qwen3")
    rows = [{"prompt": chat[:1]} for chat in families.chats()]
    return GRPOTrainer(
        model=families.model("qwen3", made), processing_class=made,
        args=arguments(GRPOConfig, num_generations=4),
        reward_funcs=lambda completions, **fields: [0.0] * len(completions),
        train_dataset=Dataset.from_list(rows),
    )  # fmt: skip


def reward() -> Any:
    from transformers import LlamaConfig, LlamaForSequenceClassification
    from trl import RewardConfig, RewardTrainer

    made = families.tokenizer("qwen3")
    config = LlamaConfig(vocab_size=len(made), hidden_size=32, intermediate_size=64,
                         num_hidden_layers=1, num_attention_heads=2, num_labels=1,
                         pad_token_id=made.pad_token_id)  # fmt: skip
    rows = [{k: v for k, v in row.items() if "score" not in k} for row in pairs()]
    return RewardTrainer(
        model=LlamaForSequenceClassification(config), processing_class=made,
        args=arguments(RewardConfig), train_dataset=Dataset.from_list(rows),
    )  # fmt: skip


# transformers' own trainer


def texts(count: int = 64, seed: int = 5) -> list[str]:
    draw = random.Random(seed)
    return [families.sentence(draw, 8, 40) for _ in range(count)]


def encoded(made: Any, rows: list[str], limit: int = 64) -> Dataset:
    return Dataset.from_list([dict(made(text, truncation=True, max_length=limit)) for text in rows])


def pretraining(kind: str = "padded") -> Any:
    """Causal language modelling, as run_clm.py does it: chunks of one length, or padded rows."""
    from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

    made = families.tokenizer("llama3")
    if kind == "chunks":
        ids = [one for text in texts(400) for one in (*made(text)["input_ids"], made.eos_token_id)]
        rows = [{"input_ids": ids[i : i + 64]} for i in range(0, len(ids) - 64, 64)]
        data = Dataset.from_list(rows)
    else:
        data = encoded(made, texts())
    extra = {"label_smoothing_factor": 0.1} if kind == "smoothed" else {}
    return Trainer(
        model=families.model("llama3", made), args=arguments(TrainingArguments, **extra),
        train_dataset=data, data_collator=DataCollatorForLanguageModeling(made, mlm=False),
        processing_class=made,
    )  # fmt: skip


def masked(fault: str = "") -> Any:
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        DataCollatorForLanguageModeling,
        Trainer,
        TrainingArguments,
    )

    made = families.tokenizer("zephyr")
    made.add_special_tokens({"mask_token": "<mask>", "pad_token": "<pad>"})
    config = BertConfig(vocab_size=len(made), hidden_size=32, intermediate_size=64,
                        num_hidden_layers=1, num_attention_heads=2)  # fmt: skip
    share = 0.0 if fault else 0.15
    return Trainer(
        model=BertForMaskedLM(config), args=arguments(TrainingArguments),
        train_dataset=encoded(made, texts()), processing_class=made,
        data_collator=DataCollatorForLanguageModeling(made, mlm=True, mlm_probability=share),
    )  # fmt: skip


def entities() -> Any:
    from transformers import (
        BertConfig,
        BertForTokenClassification,
        DataCollatorForTokenClassification,
        Trainer,
        TrainingArguments,
    )

    made = families.tokenizer("llama3")
    draw, rows = random.Random(4), []
    for text in texts():
        ids = made(text)["input_ids"]
        labels = [draw.choice((-100, 0, 0, 0, 1, 2)) for _ in ids]
        rows.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels})
    config = BertConfig(vocab_size=len(made), hidden_size=32, intermediate_size=64,
                        num_hidden_layers=1, num_attention_heads=2, num_labels=3)  # fmt: skip
    return Trainer(
        model=BertForTokenClassification(config), args=arguments(TrainingArguments),
        train_dataset=Dataset.from_list(rows), processing_class=made,
        data_collator=DataCollatorForTokenClassification(made),
    )  # fmt: skip


def translation() -> Any:
    from transformers import (
        DataCollatorForSeq2Seq,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        T5Config,
        T5ForConditionalGeneration,
    )

    made = families.tokenizer("llama3")
    pad = made.pad_token_id
    config = T5Config(vocab_size=len(made), d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=2,
                      decoder_start_token_id=pad, pad_token_id=pad)  # fmt: skip
    model = T5ForConditionalGeneration(config)
    rows = [{**made(a), "labels": [*made(b)["input_ids"], made.eos_token_id]}
            for a, b in zip(texts(), texts(seed=6), strict=True)]  # fmt: skip
    return Seq2SeqTrainer(
        model=model, args=arguments(Seq2SeqTrainingArguments),
        train_dataset=Dataset.from_list(rows), processing_class=made,
        data_collator=DataCollatorForSeq2Seq(made, model=model),
    )  # fmt: skip


def sentiment(fault: str = "") -> Any:
    """Sequence classification, with evaluation."""
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    made = families.tokenizer("llama3")
    draw = random.Random(4)
    rows = [{**made(text), "label": draw.randrange(2)} for text in texts(128)]
    other = [{**made(text), "label": draw.randrange(2)} for text in texts(64, seed=8)]
    if fault == "leak":
        other[:8] = rows[:8]
    if fault == "conflict":
        rows += [{**row, "label": 1 - row["label"]} for row in rows[:20]]
    if fault == "sorted":
        rows.sort(key=lambda row: row["label"])
    config = BertConfig(vocab_size=len(made), hidden_size=32, intermediate_size=64,
                        num_hidden_layers=1, num_attention_heads=2)  # fmt: skip
    model, collator = BertForSequenceClassification(config), DataCollatorWithPadding(made)
    if fault == "sorted":
        loader = DataLoader(Dataset.from_list(rows), batch_size=4, collate_fn=collator)
        return {"model": model, "train": loader}
    return Trainer(model=model, args=arguments(TrainingArguments), processing_class=made,
                   train_dataset=Dataset.from_list(rows), eval_dataset=Dataset.from_list(other),
                   data_collator=collator)  # fmt: skip


# Loops without a library


class Small(torch.nn.Module):
    """Predicts tokens; `shift` as the loss does it, `causal` as its attention is."""

    def __init__(self, words: int = 96, *, shift: int = 0, causal: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.shift, self.causal = shift, causal
        self.embed, self.place = torch.nn.Embedding(words, 32), torch.nn.Embedding(256, 32)
        self.layer = torch.nn.TransformerEncoderLayer(32, 2, 64, 0.0, batch_first=True)
        self.head = torch.nn.Linear(32, words)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        hidden = self.embed(ids) + self.place(torch.arange(length))
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1) if self.causal else None
        logits = self.head(self.layer(hidden, src_mask=mask))
        if self.shift:
            logits, labels = logits[:, : -self.shift], labels[:, self.shift :]
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=-1
        )


def blocks(kind: str = "") -> Any:
    """Pairs of a block and the same block one token later, as nanoGPT makes them."""
    ids = torch.randint(3, 96, (20_000,), generator=torch.Generator().manual_seed(1))
    later = 0 if kind == "same" else 2 if kind == "far" else 1
    starts = range(0, 12_800, 100)
    rows = [(ids[s : s + 64], ids[s + later : s + later + 64]) for s in starts]
    loader = DataLoader(rows, batch_size=8, shuffle=True)
    model = Small(shift=int(kind == "twice"), causal=kind != "sees")
    return model, loader


def distilled(kind: str = "") -> Any:
    """The loss is half that of a teacher."""
    model, loader = blocks("")
    teacher = Small()

    def loss(module: Any, batch: Any) -> Any:
        ids, labels = batch
        hard = module(ids, labels)
        soft = (module.embed(ids) - teacher.embed(ids)).pow(2).mean()
        return 0.5 * hard + 0.5 * soft

    return {"model": model, "train": loader, "loss": loss}


def vectors(kind: str = "") -> Any:
    """A table of numbers with classes."""
    draw = torch.Generator().manual_seed(2)
    x, y = torch.randn(512, 32, generator=draw), torch.randint(0, 4, (512,), generator=draw)
    model = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    if kind == "sorted":
        order = y.argsort()
        x, y = x[order], y[order]
    if kind == "constant":
        x = torch.ones_like(x)
    if kind == "someempty":
        x[::20] = 0.0
    if kind == "conflict":
        x[256:] = x[:256]
    extra = {}
    if kind == "balanced":
        extra = {"batch_sampler": [[int(i) for i in (y == c).nonzero()[k : k + 8, 0]]
                                   for k in range(0, 64, 8) for c in range(4)]}  # fmt: skip
    elif kind == "weighted":
        extra = {"sampler": torch.utils.data.WeightedRandomSampler(torch.rand(512), 512)}
    options = extra if "batch_sampler" in extra else {"batch_size": 8, **extra}
    shuffle = {"shuffle": True} if kind in ("", "leak", "rare") else {}
    if kind == "rare":  # 1 % of one class
        y = (torch.arange(512) % 100 == 0).long()
    loader = DataLoader(TensorDataset(x, y), **options, **shuffle)
    found: dict[str, Any] = {"model": model, "train": loader, "loss": torch.nn.CrossEntropyLoss()}
    other = torch.randn(128, 32, generator=draw)
    if kind == "leak":
        other[:16] = x[:16]
    labels = torch.arange(128) % (2 if kind == "rare" else 4)
    found["eval"] = DataLoader(TensorDataset(other, labels), 8)
    return found


def lengths(kind: str = "") -> Any:
    """Rows sorted by their length (a bucket sampler), or from easy to hard (a curriculum)."""
    made = families.tokenizer("llama3")
    rows = sorted((made(text)["input_ids"] for text in texts(96)), key=len)
    if kind == "buckets":
        groups = [rows[i : i + 8] for i in range(0, 96, 8)]
        random.Random(1).shuffle(groups)
        rows = list(itertools.chain(*groups))

    def collate(batch: Any) -> Any:
        padded = made.pad({"input_ids": batch}, return_tensors="pt")
        labels = padded["input_ids"].masked_fill(padded["attention_mask"] == 0, -100)
        return {**padded, "labels": labels}

    return {"model": families.model("llama3", made), "tokenizer": made,
            "train": DataLoader(rows, batch_size=8, collate_fn=collate)}  # fmt: skip


# Streams


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __iter__(self) -> Any:
        info = torch.utils.data.get_worker_info()
        draw = torch.Generator().manual_seed(3)
        numbers = itertools.count() if self.kind == "endless" else range(4000)
        for number in numbers:
            row = torch.randn(16, generator=draw)
            if self.kind == "twins" or info is None or number % info.num_workers == info.id:
                yield row, number % 3


def stream(kind: str, workers: int) -> Any:
    return DataLoader(Stream(kind), batch_size=8, num_workers=workers)


class Broken:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        if index == 40 and self.kind == "raises":
            raise ValueError("a row's content")
        if index == 40 and self.kind == "dies":
            import os

            os._exit(3)
        return torch.randn(8, generator=torch.Generator().manual_seed(index)), index % 2


def broken(kind: str, workers: int = 0) -> Any:
    if kind == "none":
        return DataLoader(Broken(kind), batch_size=8, collate_fn=lambda rows: None)
    if kind == "empty":
        return DataLoader([], batch_size=8)
    return DataLoader(Broken(kind), batch_size=8, num_workers=workers)


# Images


def images(kind: str = "") -> Any:
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(0)
    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=4)
    model: Any = ResNetForImageClassification(config)
    draw = torch.Generator().manual_seed(5)
    raw = torch.randint(0, 256, (96, 3, 32, 32), generator=draw)
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    stated = kind in ("stated", "unnormalized", "bytesstated", "inside")
    scaled = raw.float() / 255
    normal = (scaled - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    pixels = {
        "bytes": raw.float(),
        "bytesstated": raw.float(),
        "unnormalized": scaled,
        "scratch": scaled,
        "inside": raw.float(),
        "constant": torch.zeros(96, 3, 32, 32),
    }
    value = pixels.get(kind, normal)
    if kind == "dark":
        value = (scaled * 0.2 - 0.45) / 0.22
    if stated:
        model.pretrained_cfg = {"mean": mean, "std": std}
    if kind == "inside":
        model = Inside(model, mean, std)
    y = torch.arange(96) % 4
    rows = [{"pixel_values": a, "labels": b} for a, b in zip(value, y, strict=True)]
    return model, DataLoader(rows, batch_size=8, shuffle=True)


class Inside(torch.nn.Module):
    """Normalizes in the model."""

    def __init__(self, model: Any, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.model = model
        self.pretrained_cfg = {"mean": mean, "std": std}
        self.mean, self.std = torch.tensor(mean)[:, None, None], torch.tensor(std)[:, None, None]

    def forward(self, pixel_values: Any, labels: Any) -> Any:
        return self.model((pixel_values / 255 - self.mean) / self.std, labels=labels)


# Lightning


def lightning(kind: str = "module") -> Any:
    import lightning

    class Data(lightning.LightningDataModule):
        def setup(self, stage: str) -> None:
            draw = torch.Generator().manual_seed(2)
            self.x = torch.randn(256, 16, generator=draw)
            self.y = torch.randint(0, 3, (256,), generator=draw)

        def train_dataloader(self) -> Any:
            rows = TensorDataset(self.x[:192], self.y[:192])
            return DataLoader(rows, batch_size=8, shuffle=True)

        def val_dataloader(self) -> Any:
            start = 100 if kind == "leak" else 192
            return DataLoader(TensorDataset(self.x[start:], self.y[start:]), batch_size=8)

    if kind in ("data", "leak"):
        return Data()
    data = Data()
    data.setup("fit")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(16, 3)

        def training_step(self, batch: Any, index: int) -> Any:
            return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

        def train_dataloader(self) -> Any:
            return data.train_dataloader()

    return Module()


def contrastive() -> Any:
    made = families.tokenizer("llama3")
    rows = list(zip(texts(), texts(seed=9), strict=True))

    def collate(batch: Any) -> Any:
        sides = [made([row[k] for row in batch], padding=True, return_tensors="pt") for k in (0, 1)]
        return {"query": dict(sides[0]), "positive": dict(sides[1])}

    return DataLoader(rows, batch_size=8, shuffle=True, collate_fn=collate)


CASES: dict[str, Any] = {
    **{f"dpo_{f or 'healthy'}": partial(dpo, f) for f in ("", "equal", "someequal", "swapped")},
    **{f"preference_{f or 'healthy'}": partial(preference, f)
       for f in ("", "equal", "someequal", "swapped")},
    "kto": kto, "grpo": grpo, "reward": reward, "entities": entities, "translation": translation,
    "contrastive": contrastive, "masked": masked, "masked_none": partial(masked, "none"),
    **{f"pretraining_{k}": partial(pretraining, k) for k in ("padded", "chunks", "smoothed")},
    **{f"sentiment_{f or 'healthy'}": partial(sentiment, f)
       for f in ("", "leak", "conflict", "sorted")},
    **{f"blocks_{k or 'healthy'}": partial(blocks, k)
       for k in ("", "same", "far", "twice", "sees")},
    "distilled": distilled,
    **{f"vectors_{k or 'healthy'}": partial(vectors, k)
       for k in ("", "sorted", "constant", "someempty", "conflict", "balanced", "weighted", "rare",
                 "leak")},
    **{f"lengths_{k}": partial(lengths, k) for k in ("sorted", "buckets")},
    **{f"stream_{k}_{w}": partial(stream, k, w)
       for k in ("split", "endless", "twins") for w in (0, 2, 4)},
    **{f"broken_{k}_{w}": partial(broken, k, w)
       for k in ("raises", "dies", "none", "empty") for w in (0, 2)},
    **{f"images_{k or 'healthy'}": partial(images, k)
       for k in ("", "stated", "unnormalized", "bytesstated", "inside", "bytes", "scratch", "dark",
                 "constant")},
    **{f"lightning_{k}": partial(lightning, k) for k in ("module", "data", "leak")},
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in CASES:
        return CASES[name]
    raise AttributeError(name)
