"""Pipelines after transformers' own examples (examples/pytorch): entities, questions, choices,
grouped and filled-in text, summaries, regression, several labels, streams, speech, pictures with
text, segmentation; NAME_healthy and NAME_FAULT."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import families
import torch
import transformers as hf
from datasets import Dataset
from others import arguments, texts
from torch.utils.data import SequentialSampler

SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


def bert(kind: Any, made: Any, **fields: Any) -> Any:
    return kind(
        hf.BertConfig(vocab_size=len(made), pad_token_id=made.pad_token_id, **SMALL, **fields)
    )


def train(
    model: Any,
    rows: list[Any],
    made: Any,
    collator: Any,
    other: Any = None,
    kind: Any = hf.Trainer,
    config: Any = hf.TrainingArguments,
    **fields: Any,
) -> Any:
    evaluation = Dataset.from_list(other) if other else None
    return kind(
        model=model,
        args=arguments(config, **fields),
        train_dataset=Dataset.from_list(rows),
        eval_dataset=evaluation,
        processing_class=made,
        data_collator=collator,
    )


def tagged(made: Any, seed: int, count: int, fault: str) -> list[Any]:
    """One tag for the first token of each word, as run_ner.py aligns them."""
    draw, rows = random.Random(seed), []
    for text in texts(count, seed):
        ids: list[int] = [made.bos_token_id]
        tags = [-100]
        for word in text.split():
            pieces = made(" " + word, add_special_tokens=False)["input_ids"]
            first = draw.choice((0, 0, 0, 1, 2, 3)) if fault != "unlabelled" else -100
            ids, tags = ids + pieces, [*tags, first, *[-100] * (len(pieces) - 1)]
        rows.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": tags})
    return rows


def ner(fault: str) -> Any:
    made = families.tokenizer("llama3")
    rows, other = tagged(made, 5, 64, fault), tagged(made, 15, 32, fault)
    if fault == "leak":
        other[3:9] = rows[:6]
    model = bert(hf.BertForTokenClassification, made, num_labels=4)
    return train(model, rows, made, hf.DataCollatorForTokenClassification(made), other)


def questions(fault: str) -> Any:
    """Windows over a context, each with the question in front and the place of the answer."""
    made = families.tokenizer("zephyr")
    draw, rows = random.Random(6), []
    for text, question in zip(texts(40), texts(40, seed=21), strict=True):
        asked = made(question)["input_ids"][:8]
        context = made(text + " " + text[::-1])["input_ids"]
        for start in range(0, len(context), 24):
            part = context[start : start + 40]
            low = draw.randrange(len(asked), len(asked) + len(part))
            high = min(low + draw.randrange(4), len(asked) + len(part) - 1)
            rows.append(
                {
                    "input_ids": asked + part,
                    "attention_mask": [1] * len(asked + part),
                    "start_positions": low,
                    "end_positions": high,
                }
            )
    if fault == "same":
        rows = [dict(rows[0]) for _ in rows]
    return train(
        bert(hf.BertForQuestionAnswering, made), rows, made, hf.DataCollatorWithPadding(made)
    )


def choices(fault: str) -> Any:
    made = families.tokenizer("llama3")
    draw, rows = random.Random(7), []
    for text in texts(72, seed=30):
        ends = [families.sentence(draw, 4, 9) for _ in range(4)]
        each = [made(text, end, truncation=True, max_length=48) for end in ends]
        rows.append(
            {
                **{name: [one[name] for one in each] for name in ("input_ids", "attention_mask")},
                "label": 0 if fault == "oneclass" else draw.randrange(4),
            }
        )
    return train(
        bert(hf.BertForMultipleChoice, made), rows, made, hf.DataCollatorForMultipleChoice(made)
    )


def grouped(made: Any, rows: list[str], size: int = 48) -> list[list[int]]:
    ids = [one for text in rows for one in (*made(text)["input_ids"], made.eos_token_id)]
    return [ids[i : i + size] for i in range(0, len(ids) - size, size)]


def masked(fault: str) -> Any:
    made = families.tokenizer("zephyr")
    made.add_special_tokens({"mask_token": "<mask>"})
    source = texts(160)
    other = source[100:] if fault == "leak" else texts(60, seed=40)
    if fault == "leak":  # the same rows, as a split that was cut from all
        rows = [{"input_ids": ids} for ids in grouped(made, source)]
        held = rows[-8:]
    else:
        rows, held = ([{"input_ids": i} for i in grouped(made, each)] for each in (source, other))
    return train(
        bert(hf.BertForMaskedLM, made),
        rows,
        made,
        hf.DataCollatorForLanguageModeling(made, mlm_probability=0.15),
        held,
    )


def causal(fault: str) -> Any:
    """run_clm.py: grouped texts whose labels are a copy; "padded" rows have the full length."""
    made = families.tokenizer("gemma")
    if fault in ("padded", "padtrained"):
        rows = []
        for text in texts(64):
            row = dict(made(text, padding="max_length", max_length=96, truncation=True))
            keep = [fault == "padtrained" or bool(m) for m in row["attention_mask"]]
            row["labels"] = [i if k else -100 for i, k in zip(row["input_ids"], keep, strict=True)]
            rows.append(row)
    else:
        rows = [
            {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": list(ids)}
            for ids in grouped(made, texts(300))
        ]
    if fault == "double":
        rows = [{**row, "labels": [*row["labels"][1:], -100]} for row in rows]
    return train(families.model("gemma", made), rows, made, hf.default_data_collator)


def middle(fault: str) -> Any:
    """run_fim.py: prefix, suffix, middle, in one row."""
    made = families.tokenizer("qwen25")
    names = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
    made.add_special_tokens({"additional_special_tokens": list(names)})
    marks, draw, rows = made.convert_tokens_to_ids(list(names)), random.Random(8), []
    for ids in grouped(made, texts(300), 45):
        a, b = sorted((draw.randrange(1, 44), draw.randrange(1, 44)))
        made_ids = [marks[0], *ids[:a], marks[1], *ids[b:], marks[2], *ids[a:b]]
        labels = list(made_ids) if fault != "double" else [*made_ids[1:], -100]
        rows.append({"input_ids": made_ids, "labels": labels})
    return train(families.model("qwen25", made), rows, made, hf.default_data_collator)


def summaries(fault: str) -> Any:
    made = families.tokenizer("llama3")
    made.padding_side = "right"
    config = hf.BartConfig(
        vocab_size=len(made),
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=256,
        pad_token_id=made.pad_token_id,
        eos_token_id=made.eos_token_id,
        decoder_start_token_id=made.eos_token_id,
    )
    model = hf.BartForConditionalGeneration(config)

    def rows(seed: int, count: int) -> list[Any]:
        pairs = zip(texts(count, seed), texts(count, seed + 1), strict=True)
        return [
            {**made(long), "labels": [*made(short)["input_ids"][:12], made.eos_token_id]}
            for long, short in pairs
        ]

    first, other = rows(50, 64), rows(60, 32)
    if fault == "unlabelled":
        first = [{**row, "labels": [-100] * len(row["labels"])} for row in first]
    if fault == "leak":
        other[:10] = first[20:30]
    return train(
        model,
        first,
        made,
        hf.DataCollatorForSeq2Seq(made, model=model),
        other,
        hf.Seq2SeqTrainer,
        hf.Seq2SeqTrainingArguments,
    )


class InOrder(hf.Trainer):
    """Someone's own order: that of the file."""

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return SequentialSampler(train_dataset or self.train_dataset)


def glue(fault: str) -> Any:
    made = families.tokenizer("mistral")
    draw = random.Random(9)
    regression, several = fault == "regression", fault == "several"

    def label() -> Any:
        if several:
            return [float(draw.random() < 0.4) for _ in range(5)]
        return round(draw.uniform(0, 5), 1) if regression else draw.randrange(3)

    def rows(seed: int, count: int) -> list[Any]:
        return [
            {**made(a, b), "label": label()}
            for a, b in zip(texts(count, seed), texts(count, seed + 7), strict=True)
        ]

    first, other = rows(70, 120), rows(90, 40)
    if fault == "sorted":
        first.sort(key=lambda row: row["label"])
    if fault == "leak":
        other[5:25] = first[40:60]
    if fault == "conflict":
        first += [{**row, "label": (row["label"] + 1) % 3} for row in first[:12]]
    if fault == "unknowns":  # a tokenizer of another vocabulary: everything is one token
        first = [{**row, "input_ids": [made.eos_token_id] * len(row["input_ids"])} for row in first]
    kind = {"regression": 1, "several": 5}.get(fault, 3)
    more = {"problem_type": "multi_label_classification"} if several else {}
    model = bert(hf.BertForSequenceClassification, made, num_labels=kind, **more)
    return train(
        model,
        first,
        made,
        hf.DataCollatorWithPadding(made),
        other,
        InOrder if fault == "sorted" else hf.Trainer,
    )


def streamed(fault: str) -> Any:
    """run_clm.py --streaming."""
    made = families.tokenizer("llama3")
    rows = [{"input_ids": ids, "labels": list(ids)} for ids in grouped(made, texts(300))]
    if fault == "double":
        rows = [{"input_ids": r["input_ids"], "labels": [*r["labels"][1:], -100]} for r in rows]
    data = Dataset.from_list(rows).to_iterable_dataset(num_shards=4).shuffle(3, buffer_size=20)
    return hf.Trainer(
        model=families.model("llama3", made),
        train_dataset=data,
        processing_class=made,
        args=arguments(hf.TrainingArguments, max_steps=20),
        data_collator=hf.default_data_collator,
    )


def speech(fault: str) -> Any:
    config = hf.Wav2Vec2Config(
        vocab_size=32,
        conv_dim=(16, 16),
        conv_stride=(5, 4),
        conv_kernel=(10, 8),
        num_feat_extract_layers=2,
        **SMALL,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )
    draw, noise = random.Random(3), torch.Generator().manual_seed(3)
    rows = [
        {
            "input_values": torch.randn(draw.randrange(400, 900), generator=noise),
            "labels": [draw.randrange(1, 32) for _ in range(draw.randrange(3, 9))],
        }
        for _ in range(48)
    ]

    def collate(batch: list[Any]) -> Any:
        pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
        labels = pad([torch.tensor(row["labels"]) for row in batch], padding_value=-100)
        if fault == "unlabelled":
            labels = torch.full_like(labels, -100)
        values = pad([row["input_values"] for row in batch])
        lengths = torch.tensor([len(row["input_values"]) for row in batch])
        mask = (torch.arange(values.shape[1]) < lengths[:, None]).long()
        return {"input_values": values, "attention_mask": mask, "labels": labels}

    return {
        "model": hf.Wav2Vec2ForCTC(config),
        "collate_fn": collate,
        "train": torch.utils.data.DataLoader(rows, batch_size=4, shuffle=True, collate_fn=collate),
    }


def captions(fault: str) -> Any:
    """run_clip.py: pictures and captions, of which a batch holds the negatives."""
    made = families.tokenizer("chatml")
    text = hf.CLIPTextConfig(vocab_size=len(made), eos_token_id=made.eos_token_id, **SMALL)
    vision = hf.CLIPVisionConfig(image_size=32, patch_size=16, **SMALL)
    config = hf.CLIPConfig(
        text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=16
    )
    rows = [
        dict(made(each, padding="max_length", max_length=48, truncation=True)) for each in texts(64)
    ]
    pixels = torch.randn(64, 3, 32, 32, generator=torch.Generator().manual_seed(4))
    if fault == "same":
        pixels, rows = pixels[:1].expand(64, -1, -1, -1), [rows[0]] * 64

    def collate(batch: list[int]) -> Any:
        names = ("input_ids", "attention_mask")
        inputs = {name: torch.tensor([rows[i][name] for i in batch]) for name in names}
        return {"pixel_values": pixels[batch], **inputs, "return_loss": True}

    return {
        "model": hf.CLIPModel(config),
        "train": torch.utils.data.DataLoader(
            list(range(64)), batch_size=8, shuffle=True, collate_fn=collate
        ),
    }


def segments(fault: str) -> Any:
    config = hf.SegformerConfig(
        num_labels=5,
        depths=[1, 1, 1, 1],
        hidden_sizes=[8, 8, 16, 16],
        decoder_hidden_size=16,
        num_attention_heads=[1, 1, 2, 2],
    )
    draw = torch.Generator().manual_seed(6)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    raw = torch.rand(48, 3, 64, 64, generator=draw)
    value = (raw - mean[:, None, None]) / std[:, None, None]
    masks = torch.randint(0, 5, (48, 64, 64), generator=draw)
    masks[:, :8] = 255
    if fault == "black":
        value = torch.zeros_like(value)
    rows = [{"pixel_values": a, "labels": b} for a, b in zip(value, masks, strict=True)]
    return train_loader(hf.SegformerForSemanticSegmentation(config), rows)


def train_loader(model: Any, rows: list[Any]) -> Any:
    return {"model": model, "train": torch.utils.data.DataLoader(rows, batch_size=8, shuffle=True)}


KINDS = {
    "ner": ner,
    "questions": questions,
    "choices": choices,
    "masked": masked,
    "causal": causal,
    "middle": middle,
    "summaries": summaries,
    "glue": glue,
    "streamed": streamed,
    "speech": speech,
    "captions": captions,
    "segments": segments,
}


def __getattr__(name: str) -> Any:
    kind, _, fault = name.partition("_")
    if kind not in KINDS or not fault:
        raise AttributeError(name)
    return partial(KINDS[kind], "" if fault == "healthy" else fault)
