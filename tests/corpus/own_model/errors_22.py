"""Trainings as people post them when they ask for help: each raises an error."""

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)


def _gpt2(**changes):
    sizes = {"vocab_size": 100, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    return GPT2Config(**(sizes | changes))


def _bert(**changes):
    sizes = {"vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64}
    return BertConfig(**(sizes | changes))


def _llama(**changes):
    sizes = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 64}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaConfig(**(sizes | changes))


def _tokenizer(**special):
    words = {word: at for at, word in enumerate(["[UNK]", "the", "cat", "sat", "on", "mat"])}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", **special)


def _arguments(**changes):
    return TrainingArguments(
        output_dir=tempfile.gettempdir(), report_to=[], use_cpu=True, **changes
    )


class _Rows(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


# Tokens and tokenizers


def special_tokens_for_chat():
    model = GPT2LMHeadModel(_gpt2())
    user, assistant = 100, 101
    ids = torch.randint(0, 100, (4, 20))
    ids[:, 0], ids[:, 9] = user, assistant
    return model, {"input_ids": ids, "labels": ids.clone()}


def entities_in_sentences():
    model = BertForTokenClassification(_bert(num_labels=5))
    rows = []
    for length in (9, 14, 11, 6):
        ids = torch.randint(1, 120, (length,))
        rows.append((ids, torch.randint(0, 5, (length,))))

    def collate(rows):
        ids = nn.utils.rnn.pad_sequence([r[0] for r in rows], batch_first=True)
        tags = nn.utils.rnn.pad_sequence([r[1] for r in rows], batch_first=True, padding_value=-1)
        return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": tags}

    return model, DataLoader(_Rows(rows), 4, collate_fn=collate)


def batch_of_texts_without_padding_token():
    tokenizer = _tokenizer()
    model = GPT2LMHeadModel(_gpt2())

    def collate(texts):
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        return {**batch, "labels": batch["input_ids"]}

    texts = ["the cat sat", "the cat sat on the mat", "cat"]
    return model, DataLoader(texts, batch_size=3, collate_fn=collate)


def reviews_with_gpt2():
    model = GPT2ForSequenceClassification(_gpt2(num_labels=3))
    ids = torch.randint(0, 100, (8, 16))
    return model, {"input_ids": ids, "labels": torch.randint(0, 3, (8,))}


def encoded_in_getitem():
    tokenizer = _tokenizer(pad_token="[UNK]")

    class Texts(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            item = tokenizer(
                "the cat sat on the mat", padding="max_length", max_length=12, return_tensors="pt"
            )
            return {
                "input_ids": item["input_ids"],
                "attention_mask": item["attention_mask"],
                "labels": torch.tensor(index % 2),
            }

    model = BertForSequenceClassification(_bert())
    return model, DataLoader(Texts(), batch_size=4)


def ids_as_lists():
    rows = [{"input_ids": [at, 3, 4, 5], "labels": at % 2} for at in range(8)]
    model = BertForSequenceClassification(_bert())
    return model, DataLoader(_Rows(rows), batch_size=4)


def labels_of_a_seq2seq_collator():
    rows = [
        {"input_ids": [5, 6, 7, 8, 9], "labels": [3, 4, 1]},
        {"input_ids": [5, 6, 7], "labels": [3, 4, 8, 9, 1]},
    ]

    def collate(rows):
        longest = max(len(row["input_ids"]) for row in rows)
        ids = [row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows]
        return {
            "input_ids": torch.tensor(ids),
            "labels": torch.tensor([row["labels"] for row in rows]),
        }

    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
    model = T5ForConditionalGeneration(T5Config(vocab_size=60, **sizes))
    return model, DataLoader(_Rows(rows), batch_size=2, collate_fn=collate)


def documents_longer_than_the_model():
    model = BertForSequenceClassification(_bert(num_labels=4))
    ids = torch.randint(0, 120, (2, 80))
    return model, {"input_ids": ids, "labels": torch.tensor([0, 3])}


def teacher_forcing_by_hand():
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
    config = T5Config(vocab_size=60, decoder_start_token_id=None, pad_token_id=None, **sizes)
    model = T5ForConditionalGeneration(config)
    ids = torch.randint(0, 60, (3, 10))
    return model, {"input_ids": ids, "labels": torch.randint(0, 60, (3, 6))}


# Trainer


def trainer_of_an_older_release():
    model = GPT2LMHeadModel(_gpt2())
    rows = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]} for _ in range(8)]
    return Trainer(
        model=model, args=_arguments(), train_dataset=rows, tokenizer=_tokenizer(pad_token="[UNK]")
    )


def evaluation_of_an_older_release():
    model = GPT2LMHeadModel(_gpt2())
    rows = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]} for _ in range(8)]
    return Trainer(model=model, args=_arguments(evaluation_strategy="epoch"), train_dataset=rows)


class _Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = F.cross_entropy(outputs.logits, labels, weight=torch.tensor([1.0, 3.0]))
        return (loss, outputs) if return_outputs else loss


def trainer_with_class_weights():
    model = BertForSequenceClassification(_bert())
    rows = [{"input_ids": [4, 5, 6], "labels": at % 2} for at in range(8)]
    return _Weighted(model=model, args=_arguments(), train_dataset=rows)


class _Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 1)

    def forward(self, tokens, score=None):
        out = self.head(self.emb(tokens).mean(1)).squeeze(-1)
        loss = None if score is None else F.mse_loss(out, score)
        return {"loss": loss, "logits": out}


def trainer_with_other_columns():
    rows = [{"input_ids": [1, 2, 3], "score": 0.5} for _ in range(8)]
    return Trainer(model=_Ranker(), args=_arguments(), train_dataset=rows)


# Types


def several_topics_per_text():
    model = BertForSequenceClassification(
        _bert(num_labels=6, problem_type="multi_label_classification")
    )
    batch = {"input_ids": torch.randint(0, 120, (4, 12)), "labels": torch.randint(0, 2, (4, 6))}
    return model, batch


class _Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(24, 32), nn.GELU(), nn.Linear(32, 32)).bfloat16()
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.body(x.to(torch.bfloat16)))


def head_on_a_backbone_in_bf16():
    batch = torch.randn(8, 24), torch.randint(0, 4, (8,))
    return _Backbone(), batch, nn.CrossEntropyLoss()


def ages_from_a_table():
    table = np.random.default_rng(0).normal(size=(32, 6))
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
    return model, (torch.from_numpy(table), torch.randn(32, 1)), nn.MSELoss()


def rate_read_from_a_file():
    settings = json.loads('{"lr": "3e-4", "decay": 0.01}')
    model = nn.Linear(8, 2)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings["lr"], weight_decay=settings["decay"]
    )
    batch = torch.randn(8, 8), torch.randint(0, 2, (8,))
    return {"model": model, "batch": batch, "loss": nn.CrossEntropyLoss(), "optimizer": optimizer}


class _Causal(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(40, 32)
        self.qkv = nn.Linear(32, 96)
        self.out = nn.Linear(32, 40)

    def forward(self, ids):
        q, k, v = self.qkv(self.emb(ids)).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / math.sqrt(32)
        hidden = torch.triu(torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool), 1)
        scores = scores.half().masked_fill(hidden, -1e9)
        return self.out(scores.softmax(-1).to(v.dtype) @ v)


def mask_of_a_billion_in_half():
    def loss(model, ids):
        logits = model(ids)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    return _Causal(), torch.randint(0, 40, (4, 12)), loss


# Shapes


class _Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(80, 24)
        self.rnn = nn.LSTM(24, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 3)

    def forward(self, ids):
        out, _ = self.rnn(self.emb(ids))
        return self.head(out[:, -1])


def sentiment_in_both_directions():
    return (
        _Sentiment(),
        (torch.randint(0, 80, (6, 15)), torch.randint(0, 3, (6,))),
        nn.CrossEntropyLoss(),
    )


def pictures_from_opencv():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )
    pictures = np.random.default_rng(0).random((4, 48, 48, 3), dtype=np.float32)
    return model, (torch.from_numpy(pictures), torch.randint(0, 5, (4,))), nn.CrossEntropyLoss()


def pictures_larger_than_the_patches():
    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        num_labels=3,
    )
    model = ViTForImageClassification(config)
    return model, {"pixel_values": torch.randn(2, 3, 48, 48), "labels": torch.tensor([0, 2])}


class _Captions(nn.Module):
    """A picture's features take the places of its tokens."""

    def __init__(self):
        super().__init__()
        self.vision = nn.Linear(20, 32)
        self.model = LlamaForCausalLM(_llama())

    def forward(self, input_ids, pixels, labels):
        embeds = self.model.get_input_embeddings()(input_ids)
        features = self.vision(pixels).flatten(0, 1)
        embeds = embeds.clone()
        embeds[input_ids == 95] = features
        return self.model(inputs_embeds=embeds, labels=labels)


def captions_that_are_truncated():
    ids = torch.randint(0, 90, (2, 30))
    ids[:, 2:18] = 95
    ids = ids[:, :12]  # max_length of the collator
    return _Captions(), {"input_ids": ids, "pixels": torch.randn(2, 16, 20), "labels": ids.clone()}


def masks_with_a_channel():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
    masks = torch.randint(0, 4, (2, 1, 16, 16))
    return model, (torch.randn(2, 3, 16, 16), masks), nn.CrossEntropyLoss()


def classes_of_one_hot():
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))
    targets = F.one_hot(torch.randint(0, 4, (8,)), 4)
    return model, (torch.randn(8, 10), targets), nn.CrossEntropyLoss()


class _Fusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.text = nn.GRU(16, 24, batch_first=True)
        self.numbers = nn.Linear(5, 8)
        self.head = nn.Linear(32, 2)

    def forward(self, text, numbers):
        _, last = self.text(text)
        return self.head(torch.cat([last, self.numbers(numbers)], dim=-1))


def text_beside_numbers():
    batch = {
        "text": torch.randn(4, 9, 16),
        "numbers": torch.randn(4, 5),
        "y": torch.randint(0, 2, (4,)),
    }
    return _Fusion(), batch, lambda m, b: F.cross_entropy(m(b["text"], b["numbers"]), b["y"])


class _Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(60, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(32, 2)

    def forward(self, ids):
        padding = (ids == 0).transpose(0, 1)
        return self.head(self.encoder(self.emb(ids), src_key_padding_mask=padding).mean(1))


def padding_mask_the_other_way_round():
    ids = torch.randint(1, 60, (6, 10))
    ids[:, 8:] = 0
    return _Encoder(), (ids, torch.randint(0, 2, (6,))), nn.CrossEntropyLoss()


class _Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(70, 24)
        self.body = nn.GRU(24, 48, batch_first=True)
        self.head = nn.Linear(48, 70, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        return self.head(self.body(self.emb(ids))[0])


def tied_to_a_narrower_embedding():
    def loss(model, ids):
        return F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    return _Tied(), torch.randint(0, 70, (4, 12)), loss


class _Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 8, 3, padding=1)
        self.mid = nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        first = self.down(x).relu()
        second = self.mid(F.max_pool2d(first, 2)).relu()
        return self.out(torch.cat([first, self.up(second)], 1))


def scans_of_an_odd_size():
    return (
        _Unet(),
        (torch.randn(2, 1, 33, 33), torch.randint(0, 2, (2, 33, 33))),
        nn.CrossEntropyLoss(),
    )


def last_batch_of_one():
    model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 2))
    rows = [(torch.randn(6), at % 2) for at in range(33)]
    loader = DataLoader(_Rows(rows[32:]), batch_size=32)
    return model, loader, nn.CrossEntropyLoss()


# The graph


class _Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.second = nn.Linear(16, 3)

    def forward(self, x):
        hidden = self.first(x)
        gate = torch.sigmoid(hidden)
        gate += x
        return self.second(gate * hidden)


def gated_by_itself():
    return _Residual(), (torch.randn(8, 16), torch.randint(0, 3, (8,))), nn.CrossEntropyLoss()


class _Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 1)
        self.state = None

    def forward(self, x):
        out, self.state = self.cell(x, self.state)
        return self.head(out[:, -1])


def state_from_window_to_window():
    return _Stateful(), (torch.randn(4, 10, 8), torch.randn(4, 1)), nn.MSELoss()


def counted_before_the_optimizer():
    model = nn.Linear(8, 2)
    parameters = model.parameters()
    print(sum(p.numel() for p in parameters), "parameters")
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    batch = torch.randn(8, 8), torch.randint(0, 2, (8,))
    return {"model": model, "batch": batch, "loss": nn.CrossEntropyLoss(), "optimizer": optimizer}


class _Checkpointed(nn.Module):
    """A frozen base below adapters, recomputed as older code does."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(60, 32).requires_grad_(False)
        self.blocks = nn.ModuleList(nn.Linear(32, 32) for _ in range(3)).requires_grad_(False)
        self.adapters = nn.ModuleList(nn.Linear(32, 32, bias=False) for _ in range(3))
        self.head = nn.Linear(32, 60).requires_grad_(False)

    def block(self, at, x):
        return x + self.blocks[at](x) + self.adapters[at](x)

    def forward(self, ids):
        x = self.emb(ids)
        for at in range(3):
            x = checkpoint(self.block, at, x, use_reentrant=True)
        return self.head(x)


def adapters_that_are_recomputed():
    def loss(model, ids):
        return F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    return _Checkpointed(), torch.randint(0, 60, (4, 12)), loss


def adapters_for_llama_in_gpt2():
    model = GPT2LMHeadModel(_gpt2())
    model = get_peft_model(model, LoraConfig(target_modules=["q_proj", "v_proj"], r=4))
    ids = torch.randint(0, 100, (2, 12))
    return model, {"input_ids": ids, "labels": ids}


def adapter_of_another_rank():
    folder = Path(tempfile.mkdtemp())
    config = LoraConfig(target_modules=["q_proj", "v_proj"], r=8)
    get_peft_model(LlamaForCausalLM(_llama()), config).save_pretrained(folder)
    stored = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(stored | {"r": 16}))
    model = PeftModel.from_pretrained(LlamaForCausalLM(_llama()), folder, is_trainable=True)
    ids = torch.randint(0, 96, (2, 12))
    return model, {"input_ids": ids, "labels": ids}


class _Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(12, 3)

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return {"train_loss": loss}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)

    def train_dataloader(self):
        return DataLoader(_Rows([(torch.randn(12), at % 3) for at in range(12)]), batch_size=4)


def lightning_with_a_named_loss():
    return _Lit()


def one_cycle_per_epoch():
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    epochs, steps = 1, 2
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.1, total_steps=epochs * steps
    )
    batch = torch.randn(8, 8), torch.randint(0, 2, (8,))
    return {
        "model": model,
        "batch": batch,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": schedule,
    }


def metric_as_the_loss():
    model = nn.Linear(8, 3)

    def loss(model, batch):
        x, y = batch
        hits = model(x).argmax(-1) == y
        return 1 - hits.float().mean()

    return model, (torch.randn(16, 8), torch.randint(0, 3, (16,))), loss


def losses_in_a_new_tensor():
    model = nn.Linear(8, 3)

    def loss(model, batch):
        x, y = batch
        each = [F.cross_entropy(model(x[i : i + 1]), y[i : i + 1]) for i in range(4)]
        return torch.tensor(each).mean()

    return model, (torch.randn(4, 8), torch.randint(0, 3, (4,))), loss


def plotted_in_forward():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(6, 2)
            self.history = []

        def forward(self, x):
            out = self.net(x)
            self.history.append(np.histogram(out.numpy())[0])
            return out

    return Model(), (torch.randn(8, 6), torch.randint(0, 2, (8,))), nn.CrossEntropyLoss()
