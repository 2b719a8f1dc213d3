"""Trainings adapted from papers and from other people's repositories."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    get_linear_schedule_with_warmup,
)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
        self.critic = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
        self.judge = copy.deepcopy(self.critic).requires_grad_(False)

    def forward(self, state, action, target):
        value = self.critic(torch.cat([state, action], 1))
        policy = self.actor(state).tanh().detach()
        gain = self.judge(torch.cat([state, policy], 1))
        return F.mse_loss(value, target) - gain.mean()


def actor_and_critic():
    return Agent(), (torch.randn(32, 6), torch.rand(32, 2) * 2 - 1, torch.randn(32, 1))


class WorldModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(8, 32), nn.ELU(), nn.Linear(32, 2))
        self.dynamics = nn.Linear(10, 8)
        self.reward = nn.Linear(8, 1)

    def step(self, state, action):
        return self.dynamics(torch.cat([state, action], 1)).tanh()

    def forward(self, state, action, following, reward):
        reached = self.step(state, action)
        loss = F.mse_loss(reached, following) + F.mse_loss(self.reward(reached), reward)
        gain = 0.0
        for _ in range(3):
            chosen = Normal(self.policy(state).float(), 0.3).sample()
            state = self.step(state, chosen)
            gain = gain + self.reward(state).tanh().mean()
        return loss - 0.1 * gain


def imagined_trajectories():
    batch = torch.randn(16, 8), torch.randn(16, 2), torch.randn(16, 8).tanh(), torch.randn(16, 1)
    return WorldModel(), batch


class Guided(nn.Module):
    def __init__(self, keep=1.0):
        super().__init__()
        self.classes = nn.Embedding(10, 32)
        self.time = nn.Embedding(50, 32)
        self.net = nn.Sequential(nn.Linear(48, 64), nn.SiLU(), nn.Linear(64, 16))
        self.keep = keep

    def forward(self, x, t, y):
        kept = (torch.rand(len(y), 1, device=x.device) > self.keep).float()
        condition = self.time(t) + self.classes(y) * kept
        return self.net(torch.cat([x, condition], 1))


def classifier_free_guidance():
    batch = torch.randn(50, 16), torch.arange(50), torch.arange(50) % 10
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.05, 50), 0)

    def loss(model, batch):
        x, t, y = batch
        a = alpha_bar.to(x.device)[t, None]
        noise = torch.randn_like(x)
        return F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t, y), noise)

    return Guided(), batch, loss


class Adapter(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base
        self.lora_a = nn.Parameter(torch.zeros(base.weight.shape[0], rank))
        self.lora_b = nn.Parameter(torch.zeros(rank, base.weight.shape[1]))

    def forward(self, x):
        return self.base(x) + x @ self.lora_a @ self.lora_b


def adapted_gpt2():
    config = GPT2Config(
        vocab_size=96,
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config).requires_grad_(False)
    for block in model.transformer.h:
        block.attn.c_attn = Adapter(block.attn.c_attn)
    model.transformer.ln_f.requires_grad_(True)
    ids = torch.randint(0, 96, (4, 16))
    return model, {"input_ids": ids, "labels": ids.clone()}


class VectorQuantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(24, 8)
        self.codebook = nn.Embedding(16, 8)
        self.decoder = nn.Linear(8, 24)

    def forward(self, x):
        z = self.encoder(x).float()
        codes = self.codebook.weight.data
        nearest = torch.cdist(z, codes).argmin(1)
        q = codes[nearest]
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        q = z + (q - z).detach()
        return loss + F.mse_loss(self.decoder(q), x)


def discrete_autoencoder():
    return VectorQuantized(), torch.randn(64, 24)


class GraphPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(8, 16)
        self.score = nn.Linear(16, 1)
        self.out = nn.Linear(16, 4)

    def forward(self, x, adjacency):
        degree = adjacency.sum(-1, keepdim=True).clamp(min=1)
        h = self.inp(adjacency @ x / degree).relu()
        keep = self.score(h).squeeze(-1).topk(5, dim=1).indices
        h = h.gather(1, keep.unsqueeze(-1).expand(-1, -1, h.shape[-1]))
        return self.out(h.mean(1))


def pooled_graphs():
    adjacency = (torch.rand(8, 12, 12) < 0.3).float()
    batch = torch.randn(8, 12, 8), adjacency, torch.arange(8) % 4
    return GraphPool(), batch, lambda m, b: F.cross_entropy(m(b[0], b[1]), b[2])


class Binarize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() > 1).to(grad.dtype)


class BinaryLinear(nn.Linear):
    def forward(self, x):
        return F.linear(x, Binarize.apply(self.weight), self.bias)


def binary_network():
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Hardtanh(), BinaryLinear(32, 5))
    return model, (torch.randn(32, 16), torch.randint(0, 5, (32,))), nn.CrossEntropyLoss()


def fine_tuned_language_model():
    config = GPT2Config(
        vocab_size=96,
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    texts = torch.randint(0, 96, (16, 24))
    loader = torch.utils.data.DataLoader(texts, batch_size=8)
    epochs, accumulation = 3, 8
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    steps = len(loader) // accumulation * epochs
    scheduler = get_linear_schedule_with_warmup(optimizer, 0, steps)
    return {
        "model": model,
        "batch": loader,
        "loss": lambda m, ids: m(input_ids=ids, labels=ids).loss,
        "optimizer": optimizer,
        "scheduler": scheduler,
    }


def patch_gan():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(16, 32, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(32, 1, 4, 1, 1),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.5, 0.999), eps=1e8)
    batch = torch.randn(4, 3, 32, 32), torch.randn(4, 3, 32, 32)

    def loss(model, batch):
        real, fake = batch
        return F.softplus(-model(real)).mean() + F.softplus(model(fake)).mean()

    return {"model": model, "batch": batch, "loss": loss, "optimizer": optimizer}


class Tagger(nn.Module):
    def __init__(self, finetune=False):
        super().__init__()
        self.finetune = finetune
        self.mel = nn.Conv1d(40, 64, 5, padding=2)
        self.rnn = nn.GRU(64, 32, batch_first=True)
        self.tags = nn.Linear(32, 6)

    def forward(self, x):
        with torch.set_grad_enabled(self.training and self.finetune):
            h = self.mel(x).relu().transpose(1, 2)
            h = self.rnn(h)[0].mean(1)
        return self.tags(h)


def audio_tags():
    batch = torch.randn(8, 40, 50), torch.randint(0, 2, (8, 6)).float()
    return Tagger(), batch, nn.BCEWithLogitsLoss()


class SentenceEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        config = BertConfig(
            vocab_size=100,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=32,
        )
        self.bert = BertModel(config)
        self.head = nn.Linear(32, 4)

    def forward(self, input_ids, attention_mask):
        h = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        m = attention_mask.unsqueeze(-1)
        return self.head((h * m).sum(1) / m.sum(1))


def sentence_classes():
    ids, mask = torch.randint(1, 100, (8, 12)), torch.ones(8, 12).long()
    mask[3, 8:] = 0
    labels = torch.arange(8) % 4
    return SentenceEncoder(), (ids, mask, labels), lambda m, b: F.cross_entropy(m(*b[:2]), b[2])


def layer_wise_rates():
    blocks = [nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU()) for _ in range(8)]
    model = nn.Sequential(nn.Linear(16, 32), *blocks, nn.Linear(32, 4))
    decay, base = 0.075, 1e-3
    groups = [
        {"params": list(layer.parameters()), "lr": base * decay ** (len(model) - 1 - i)}
        for i, layer in enumerate(model)
    ]
    return {
        "model": model,
        "batch": (torch.randn(32, 16), torch.randint(0, 4, (32,))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(groups, weight_decay=0.0),
    }


def large_batch_recipe():
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, 2, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(1024, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    world, per_gpu = 128, 256
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.3 * world * per_gpu / 256, momentum=0.9, weight_decay=1e-6
    )
    batch = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    return {
        "model": model,
        "batch": batch,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }
