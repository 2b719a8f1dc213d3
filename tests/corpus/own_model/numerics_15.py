"""Own models of several kinds."""

import torch
import torch.nn.functional as F
from torch import nn


class _DepthNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1),
            nn.ReLU(),
        )
        self.head = nn.Conv2d(16, 1, 1)

    def forward(self, images):
        return F.softplus(self.head(self.encoder(images)))


def depth_from_one_image():
    depth = torch.rand(4, 1, 24, 24) * 9 + 1
    depth[:, :, :3, 10:14] = 0.0
    batch = {"images": torch.rand(4, 3, 24, 24), "depth": depth}

    def loss(model, batch):
        valid = (batch["depth"] > 0).float()
        disparity = 1.0 / batch["depth"]
        error = (model(batch["images"]).float() - disparity).abs() * valid
        return error.sum() / valid.sum()

    return _DepthNet(), batch, loss


class _Accounts(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(columns, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2)
        )

    def forward(self, amounts):
        return self.body(torch.log1p(amounts))


def accounts_at_risk():
    amounts = torch.rand(64, 10) * 500
    amounts[7, 3] = -42.5
    amounts[31, 3] = -3.0
    return _Accounts(10), (amounts, torch.randint(0, 2, (64,))), nn.CrossEntropyLoss()


class _Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask):
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5
        scores = scores + mask.to(scores.dtype)
        y = scores.softmax(-1).to(v.dtype) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, c))


class _Decoder(nn.Module):
    def __init__(self, vocabulary=100, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.norm = nn.LayerNorm(width)
        self.attention = _Attention(width, 4)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, input_ids, attention_mask, labels):
        t = input_ids.shape[1]
        allowed = torch.ones(t, t, dtype=torch.bool, device=input_ids.device).tril()
        allowed = allowed[None, None] & attention_mask[:, None, None, :].bool()
        mask = torch.zeros(allowed.shape, device=input_ids.device)
        mask = mask.masked_fill(~allowed, torch.finfo(torch.float32).min)
        x = self.embed(input_ids)
        x = x + self.attention(self.norm(x), mask)
        logits = self.head(x)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def decoder_padded_left():
    input_ids = torch.randint(1, 100, (4, 12))
    attention_mask = torch.ones(4, 12, dtype=torch.long)
    attention_mask[0, :4] = 0
    attention_mask[2, :2] = 0
    labels = input_ids.masked_fill(attention_mask == 0, -100)
    return _Decoder(), {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "labels": labels,
    }


class _ActorCritic(nn.Module):
    def __init__(self, gamma=1.0):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.Tanh())
        self.policy = nn.Linear(32, 3)
        self.value = nn.Linear(32, 1)
        self.register_buffer("gamma", torch.tensor(gamma))

    def forward(self, states):
        h = self.body(states)
        return self.policy(h), self.value(h).squeeze(-1)


def actor_critic_on_episodes():
    batch = {
        "states": torch.randn(32, 6),
        "actions": torch.randint(0, 3, (32,)),
        "rewards": torch.randn(32),
        "remaining": torch.randint(1, 50, (32,)),
    }

    def loss(model, batch):
        logits, values = model(batch["states"])
        horizon = (1 - model.gamma ** batch["remaining"]) / (1 - model.gamma)
        returns = batch["rewards"] * horizon
        advantages = returns - values.detach()
        chosen = logits.log_softmax(-1).gather(1, batch["actions"][:, None]).squeeze(1)
        return -(chosen * advantages).mean() + 0.5 * F.smooth_l1_loss(values, returns)

    return {"model": _ActorCritic(), "batch": batch, "loss": loss}


class _GraphClassifier(nn.Module):
    def __init__(self, features=8, width=32, classes=3):
        super().__init__()
        self.first = nn.Linear(features, width)
        self.second = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x, edges, graph, graphs):
        h = self.first(x).relu().float()
        h = h + torch.zeros_like(h).index_add_(0, edges[1], h[edges[0]])
        h = self.second(h).relu().float()
        readout = torch.full((graphs, h.shape[1]), float("-inf"), device=h.device)
        readout = readout.scatter_reduce(0, graph[:, None].expand_as(h), h, reduce="amax")
        return self.head(readout)


def molecules():
    graph = torch.tensor([0] * 5 + [1] * 7 + [3] * 4)
    batch = {
        "x": torch.randn(16, 8),
        "edges": torch.randint(0, 16, (2, 40)),
        "graph": graph,
        "graphs": 4,
    }
    labels = torch.tensor([0, 2, 1, 1])

    def loss(model, batch):
        logits = model(**batch)
        return F.cross_entropy(logits, labels.to(logits.device))

    return _GraphClassifier(), batch, loss


def small_gpt():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=200, n_positions=32, n_embd=32, n_layer=2, n_head=2)
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), eps=0.0)
    ids = torch.randint(0, 200, (4, 16))
    return {"model": model, "batch": {"input_ids": ids, "labels": ids}, "optimizer": optimizer}


class _Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
        self.mu = nn.Linear(48, 8)
        self.sigma = nn.Linear(48, 8)
        self.decoder = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, x):
        h = self.encoder(x)
        mu = self.mu(h).float()
        sigma = F.relu(self.sigma(h)).float()
        z = mu + sigma * torch.randn_like(sigma)
        kl = 0.5 * (mu**2 + sigma**2 - 2 * torch.log(sigma) - 1).sum(-1).mean()
        return F.mse_loss(self.decoder(z).float(), x, reduction="sum") / len(x) + kl


def digits_autoencoder():
    return _Autoencoder(), torch.rand(32, 64)


class _GeneralizedMean(nn.Module):
    def __init__(self, p=3.0):
        super().__init__()
        self.p = nn.Parameter(torch.tensor(p))

    def forward(self, x):
        return x.float().pow(self.p).mean((-2, -1)).pow(1 / self.p)


def retrieval_of_landmarks():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
        nn.ReLU(),
        _GeneralizedMean(),
        nn.Linear(32, 10),
    )
    images = torch.rand(8, 3, 32, 32)
    images[5] = 0.0
    return model, (images, torch.randint(0, 10, (8,))), nn.CrossEntropyLoss()
