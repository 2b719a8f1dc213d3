"""Own models of several kinds."""

import torch
import torch.nn.functional as F
from torch import nn


class _ActorAndCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 2), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 1))

    def q(self, states, actions):
        return self.critic(torch.cat([states, actions], 1)).squeeze(1)


def continuous_control():
    batch = {
        "states": torch.randn(32, 5),
        "actions": torch.rand(32, 2) * 2 - 1,
        "goals": torch.randn(32),
    }

    def loss(model, batch):
        states = batch["states"]
        critic_loss = F.mse_loss(model.q(states, batch["actions"]).float(), batch["goals"])
        actor_loss = -model.q(states, model.actor(states).detach()).mean()
        return critic_loss + 0.1 * actor_loss

    return _ActorAndCritic(), batch, loss


class _PooledGraph(nn.Module):
    def __init__(self, features=8, width=32, keep=10):
        super().__init__()
        self.keep = keep
        self.embed = nn.Linear(features, width)
        self.update = nn.Linear(width, width)
        self.score = nn.Linear(width, 1)
        self.head = nn.Linear(width, 4)

    def forward(self, x, adjacency):
        h = self.embed(x).relu()
        h = (self.update(adjacency @ h) + h).relu()
        best = self.score(h).squeeze(-1).topk(self.keep, dim=1).indices
        h = h.gather(1, best[..., None].expand(-1, -1, h.shape[-1]))
        return self.head(h.mean(1))


def proteins():
    adjacency = (torch.rand(8, 20, 20) < 0.2).float() + torch.eye(20)
    adjacency = adjacency / adjacency.sum(-1, keepdim=True)
    labels = torch.randint(0, 4, (8,))
    batch = {"x": torch.randn(8, 20, 8), "adjacency": adjacency, "labels": labels}

    def loss(model, batch):
        return F.cross_entropy(model(batch["x"], batch["adjacency"]), batch["labels"])

    return _PooledGraph(), batch, loss


class _Sentences(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=200,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=64,
            type_vocab_size=1,
        )
        self.bert = BertModel(config)
        self.head = nn.Linear(32, classes)

    def forward(self, input_ids, attention_mask, labels):
        states = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask[..., None].to(states.dtype)
        pooled = (states * weights).sum(1) / weights.sum(1)
        return F.cross_entropy(self.head(pooled), labels)


def topics_with_bert():
    mask = torch.ones(8, 64, dtype=torch.long)
    mask[::2, 40:] = 0
    batch = {
        "input_ids": torch.randint(1, 200, (8, 64)).masked_fill(mask == 0, 0),
        "attention_mask": mask,
        "labels": torch.randint(0, 4, (8,)),
    }
    return _Sentences(), batch


class _Adapter(nn.Module):
    def __init__(self, base, rank=4, alpha=8):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.zeros(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.lora_a), self.lora_b) * self.scale


def adapted_classifier():
    first, second = _Adapter(nn.Linear(16, 48)), _Adapter(nn.Linear(48, 48))
    model = nn.Sequential(first, nn.GELU(), second, nn.GELU(), nn.Linear(48, 6))
    return model, (torch.randn(32, 16), torch.randint(0, 6, (32,))), nn.CrossEntropyLoss()


def fine_tuned_gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    learning_rate = 5e-5
    config = GPT2Config(vocab_size=128, n_positions=32, n_embd=32, n_layer=2, n_head=2)
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate * 0.999**step
    )
    ids = torch.randint(0, 128, (8, 32))
    return {
        "model": model,
        "batch": {"input_ids": ids, "labels": ids},
        "optimizer": optimizer,
        "scheduler": scheduler,
    }


class _Tagger(nn.Module):
    def __init__(self, vocabulary=60, tags=5):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 24)
        self.rnn = nn.LSTM(24, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, tags)

    def forward(self, tokens, tags):
        h, _ = self.rnn(self.embed(tokens))
        return F.cross_entropy(self.head(h).flatten(0, 1), tags.flatten())


def tagger():
    model = _Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e8)
    batch = torch.randint(0, 60, (16, 20)), torch.randint(0, 5, (16, 20))
    return {"model": model, "batch": batch, "optimizer": optimizer}


def clothes():
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 49, 10),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e4)
    batch = torch.randn(16, 1, 28, 28), torch.randint(0, 10, (16,))
    return {
        "model": model,
        "batch": batch,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


class _Photos(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.body = nn.Sequential(
            nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()
        )
        self.head = nn.Linear(32 * 64, 5)

    def forward(self, photos):
        x = (photos // 255).float()
        return self.head(self.body(self.stem(x)))


def photos_as_bytes():
    photos = torch.randint(0, 250, (16, 3, 32, 32), dtype=torch.uint8)
    return _Photos(), (photos, torch.randint(0, 5, (16,))), nn.CrossEntropyLoss()


class _TwoTowers(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.images = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, width))
        self.texts = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, width))
        self.logit_scale = nn.Parameter(torch.tensor(1 / 0.07).log())

    def forward(self, images, texts):
        a = F.normalize(self.images(images).float(), dim=-1)
        b = F.normalize(self.texts(texts).float(), dim=-1)
        scale = min(self.logit_scale.exp().item(), 100.0)
        logits = scale * a @ b.T
        target = torch.arange(len(a), device=a.device)
        return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def pictures_and_captions():
    return _TwoTowers(), (torch.randn(16, 48), torch.randn(16, 20))
