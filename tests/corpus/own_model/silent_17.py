"""Trainings of everyday models: language, speech, recommendation, tables, series, control."""

import copy
import math

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    get_linear_schedule_with_warmup,
)


def clicks_and_purchases():
    class Shop(nn.Module):
        def __init__(self):
            super().__init__()
            self.item = nn.Embedding(80, 16)
            self.body = nn.Sequential(nn.Linear(26, 32), nn.ReLU())
            self.click, self.purchase = nn.Linear(32, 1), nn.Linear(32, 1)

        def forward(self, item, features):
            x = self.body(torch.cat([self.item(item), features], -1))
            return self.click(x).squeeze(-1), self.purchase(x).squeeze(-1)

    def loss(model, batch):
        click, purchase = model(batch["item"], batch["features"])
        terms = {
            "click": F.binary_cross_entropy_with_logits(click, batch["clicked"]),
            "purchase": F.binary_cross_entropy_with_logits(purchase, batch["bought"]),
        }
        return terms["click"] + 0.5 * terms["purchase"].item()

    batch = {
        "item": torch.randint(0, 80, (32,)),
        "features": torch.randn(32, 10),
        "clicked": torch.randint(0, 2, (32,)).float(),
        "bought": torch.randint(0, 2, (32,)).float(),
    }
    return Shop(), batch, loss


def two_towers():
    class Towers(nn.Module):
        def __init__(self, items=60, width=24):
            super().__init__()
            self.items = nn.Embedding(items, width)
            self.history = nn.GRU(width, width, batch_first=True)
            self.catalogue = nn.Embedding(items, width)
            self.temperature = 0.1

        def forward(self, seen, following):
            _, state = self.history(self.items(seen))
            user = F.normalize(state[-1].float(), dim=-1)
            table = F.normalize(self.catalogue.weight.data, dim=-1)
            scores = user @ table.t() / self.temperature
            return F.cross_entropy(scores, following)

    batch = {"seen": torch.randint(0, 60, (16, 8)), "following": torch.randint(0, 60, (16,))}
    return Towers(), batch


def emotions_in_speech():
    class Emotions(pl.LightningModule):
        def __init__(self, finetune=False):
            super().__init__()
            self.finetune = finetune
            self.encoder = nn.Sequential(
                nn.Conv1d(40, 32, 3, padding=1), nn.GELU(), nn.Conv1d(32, 32, 3, padding=1)
            )
            self.norm = nn.LayerNorm(32)
            self.head = nn.Linear(32, 4)

        def forward(self, frames):
            with torch.set_grad_enabled(self.finetune):
                x = self.encoder(frames).mean(-1)
            return self.head(self.norm(x))

        def training_step(self, batch, index):
            frames, emotion = batch
            loss = F.cross_entropy(self(frames), emotion)
            self.log("train/loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(
                [
                    {"params": self.encoder.parameters(), "lr": 1e-4},
                    {"params": [*self.norm.parameters(), *self.head.parameters()], "lr": 1e-3},
                ]
            )

        def train_dataloader(self):
            rows = TensorDataset(torch.randn(24, 40, 50), torch.randint(0, 4, (24,)))
            return DataLoader(rows, batch_size=8)

    return Emotions()


def temperature_and_rain():
    class Weather(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(6, 24, batch_first=True)
            self.heads = nn.ModuleList(nn.Linear(24, 1) for _ in range(2))
            self.log_variances = nn.Parameter(torch.zeros(2))

        def forward(self, series):
            _, state = self.rnn(series)
            return [head(state[-1]).squeeze(-1) for head in self.heads]

    def loss(model, batch):
        degrees, wet = model(batch["series"])
        losses = torch.stack(
            [
                F.mse_loss(degrees, batch["degrees"]),
                F.binary_cross_entropy_with_logits(wet, batch["wet"]),
            ]
        )
        weights = torch.tensor([math.exp(-s) for s in model.log_variances.tolist()])
        return (weights * losses).sum() + 0.5 * sum(model.log_variances.tolist())

    batch = {
        "series": torch.randn(12, 20, 6),
        "degrees": torch.randn(12),
        "wet": torch.randint(0, 2, (12,)).float(),
    }
    return Weather(), batch, loss


def rates_by_layer():
    config = GPT2Config(vocab_size=90, n_positions=32, n_embd=32, n_layer=12, n_head=4)
    model = GPT2LMHeadModel(config)
    blocks = model.transformer.h
    groups = [
        {"params": block.parameters(), "lr": 5e-4 * 0.1 ** (len(blocks) - i)}
        for i, block in enumerate(blocks)
    ]
    ends = [model.transformer.wte, model.transformer.wpe, model.transformer.ln_f]
    groups.append({"params": [p for end in ends for p in end.parameters()], "lr": 5e-4})
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    ids = torch.randint(0, 90, (4, 16))
    return {"model": model, "batch": {"input_ids": ids, "labels": ids}, "optimizer": optimizer}


class _Decoder(nn.Module):
    def __init__(self, words=80, width=32, layers=2, longest=32):
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(longest, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 64, dropout=0.0, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, tokens, labels):
        t = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(t)
        x = self.embed(tokens) + self.place(torch.arange(t))
        logits = self.head(self.body(x, mask=mask))[:, :-1]
        return F.cross_entropy(logits.transpose(1, 2), labels[:, 1:])


def _tokens(count=4, length=32, words=80):
    ids = torch.randint(0, words, (count, length))
    return {"tokens": ids, "labels": ids}


def decoder_with_a_linear_schedule():
    model, batch_size, accumulated = _Decoder(), 4, 8
    rows = _tokens(32)
    loader = DataLoader(
        [{k: v[i] for k, v in rows.items()} for i in range(32)], batch_size=batch_size
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = get_linear_schedule_with_warmup(
        optimizer, num_warmup_steps=0, num_training_steps=len(loader) // accumulated
    )
    return {"model": model, "batch": loader, "optimizer": optimizer, "scheduler": scheduler}


def decoder_with_a_cosine():
    model, rate, steps = _Decoder(), 1e-5, 1000
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)

    def cosine(step):
        return rate * 0.5 * (1 + math.cos(math.pi * step / steps))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine)
    return {"model": model, "batch": _tokens(), "optimizer": optimizer, "scheduler": scheduler}


def gpt2_with_three_new_words():
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=90, n_positions=32, n_embd=32, n_layer=2, n_head=4)
    )
    model.resize_token_embeddings(93, mean_resizing=False)
    words = len(model.transformer.wte.weight)
    new = torch.zeros(words, 1)
    new[words:] = 1.0
    model.transformer.wte.weight.register_hook(lambda grad: grad * new)
    ids = torch.randint(0, 93, (4, 20))
    ids[:, 5], ids[:, 11] = 90, 92
    return model, {"input_ids": ids, "labels": ids}


def gpt2_with_adapters():
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=90, n_positions=32, n_embd=32, n_layer=2, n_head=4)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    config = LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True)
    model = get_peft_model(model, config)
    ids = torch.randint(0, 90, (4, 20))
    return {
        "model": model,
        "batch": {"input_ids": ids, "labels": ids},
        "optimizer": optimizer,
        "max_grad_norm": 1.0,
    }


def decoder_with_groups_for_decay():
    model = _Decoder()
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e4, betas=(0.9, 0.95))
    return {"model": model, "batch": _tokens(), "optimizer": optimizer, "max_grad_norm": 1.0}


def rents_of_flats():
    model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    model.append(nn.Linear(64, 1))
    area, year = torch.rand(64, 1) * 150 + 20, torch.randint(1900, 2024, (64, 1)).float()
    rooms, metres = torch.randint(1, 6, (64, 1)).float(), torch.rand(64, 1) * 5000
    rent = 12 * area + 40 * rooms - 0.02 * metres + torch.randn(64, 1) * 30
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return {
        "model": model,
        "batch": (torch.cat([area, year, rooms, metres], 1), rent),
        "loss": F.mse_loss,
        "optimizer": optimizer,
    }


def actor_and_its_critic():
    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Sequential(nn.Linear(8, 64), nn.Tanh())
            self.actor = nn.Linear(64, 4)
            self.critic = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 1))

        def forward(self, state):
            x = self.trunk(state)
            return self.actor(x).float(), self.critic(x).float().squeeze(-1)

    def loss(model, batch):
        logits, values = model(batch["state"])
        policy = torch.distributions.Categorical(logits=logits)
        advantages = batch["returns"] - values.detach()
        normalized = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy_loss = -(policy.log_prob(batch["action"]) * normalized).mean()
        value_loss = advantages.pow(2).mean()
        return policy_loss + 0.5 * value_loss - 0.01 * policy.entropy().mean()

    batch = {
        "state": torch.randn(40, 8),
        "action": torch.randint(0, 4, (40,)),
        "returns": torch.randn(40),
    }
    return Agent(), batch, loss


def low_rank_on_a_classifier():
    class Adapter(nn.Module):
        def __init__(self, base, rank=16, alpha=8):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.lora_a = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
            self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
            self.scaling = alpha // rank

        def forward(self, x):
            return self.base(x) + self.scaling * (x @ self.lora_a.t() @ self.lora_b.t())

    model = nn.Sequential(
        Adapter(nn.Linear(20, 64)), nn.GELU(), Adapter(nn.Linear(64, 64)), nn.GELU()
    )
    model.append(nn.Linear(64, 5))
    return model, (torch.randn(32, 20), torch.randint(0, 5, (32,))), nn.CrossEntropyLoss()


def sensors_pooled_by_attention():
    class Pooled(nn.Module):
        def __init__(self, channels=7, width=24):
            super().__init__()
            self.rnn = nn.GRU(channels, width, batch_first=True)
            self.score = nn.Sequential(
                nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, 1, bias=False)
            )
            self.head = nn.Linear(width, 3)

        def forward(self, x):
            states, _ = self.rnn(x)
            weights = torch.softmax(self.score(states), dim=-1)
            return self.head((weights * states).sum(1))

    return Pooled(), (torch.randn(10, 30, 7), torch.randint(0, 3, (10,))), nn.CrossEntropyLoss()


def ratings_by_factors():
    class Factors(nn.Module):
        def __init__(self, users=30, films=40, rank=8):
            super().__init__()
            self.user, self.film = nn.Embedding(users, rank), nn.Embedding(films, rank)
            self.user_bias, self.film_bias = nn.Embedding(users, 1), nn.Embedding(films, 1)
            for table in self.children():
                nn.init.constant_(table.weight, 0.0)

        def forward(self, user, film):
            biases = self.user_bias(user) + self.film_bias(film)
            return (self.user(user) * self.film(film)).sum(-1) + biases.squeeze(-1) + 3.5

    def loss(model, batch):
        return F.mse_loss(model(batch["user"], batch["film"]), batch["rating"])

    batch = {
        "user": torch.randint(0, 30, (64,)),
        "film": torch.randint(0, 40, (64,)),
        "rating": torch.randint(1, 6, (64,)).float(),
    }
    return Factors(), batch, loss


def language_of_a_sentence():
    class Sentence(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(60, 24)
            self.lstm = nn.LSTM(24, 32, batch_first=True, bidirectional=True)
            self.head = nn.Linear(32, 5)

        def forward(self, letters):
            _, (hidden, _) = self.lstm(self.embed(letters))
            return self.head(hidden[-1])

    return Sentence(), (torch.randint(0, 60, (8, 15)), torch.arange(8) % 5), nn.CrossEntropyLoss()


def sentences_by_their_mean():
    class Sentences(nn.Module):
        def __init__(self):
            super().__init__()
            config = BertConfig(
                vocab_size=120,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=64,
            )
            self.bert = BertModel(config)

        def forward(self, input_ids, attention_mask):
            states = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
            mask = attention_mask[..., None].to(states.dtype)
            return (states * mask).sum(1) / mask.sum(1)

    def loss(model, batch):
        mask = batch["attention_mask"]
        first, second = model(batch["first"], mask), model(batch["second"], mask)
        scores = F.normalize(first.float(), dim=-1) @ F.normalize(second.float(), dim=-1).t()
        return F.cross_entropy(scores * 20, torch.arange(len(scores)))

    mask = (torch.arange(12) < torch.tensor([12, 8, 10, 6])[:, None]).long()
    batch = {
        "first": torch.randint(1, 120, (4, 12)),
        "second": torch.randint(1, 120, (4, 12)),
        "attention_mask": mask,
    }
    return Sentences(), batch, loss


def policy_that_stays_close():
    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(5, 32), nn.Tanh())
            self.mean = nn.Linear(32, 2)
            self.log_std = nn.Parameter(torch.full((2,), -0.5))

        def forward(self, state):
            deviation = self.log_std.exp().detach().numpy()
            return torch.distributions.Normal(
                self.mean(self.body(state)).float(), torch.from_numpy(deviation)
            )

    model = Policy()
    before = copy.deepcopy(model).requires_grad_(False)

    def loss(model, batch):
        policy, old = model(batch["state"]), before(batch["state"])
        change = policy.log_prob(batch["action"]) - old.log_prob(batch["action"])
        ratio = change.sum(-1).exp()
        gain = torch.minimum(ratio * batch["advantage"], ratio.clamp(0.8, 1.2) * batch["advantage"])
        return -gain.mean() + 0.01 * torch.distributions.kl_divergence(policy, old).mean()

    batch = {
        "state": torch.randn(32, 5),
        "action": torch.randn(32, 2),
        "advantage": torch.randn(32),
    }
    return model, batch, loss
