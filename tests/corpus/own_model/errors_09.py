"""Trainings adapted from papers and from other people's repositories."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)


def chat_with_a_new_token():
    config = GPT2Config(
        vocab_size=128,
        n_positions=64,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    pad = 128
    ids = torch.randint(0, 128, (4, 20))
    mask = torch.ones_like(ids)
    ids[1, 15:], mask[1, 15:] = pad, 0
    labels = ids.masked_fill(mask == 0, -100)
    return model, {"input_ids": ids, "attention_mask": mask, "labels": labels}


def patches_of_an_image():
    config = ViTConfig(
        image_size=32,
        patch_size=8,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        num_labels=5,
    )
    pixels = torch.randn(4, 3, 48, 48)
    model = ViTForImageClassification(config)
    return model, {"pixel_values": pixels, "labels": torch.tensor([0, 1, 2, 3])}


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU())
        self.down2 = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())
        self.bottom = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU())
        self.up2 = nn.ConvTranspose2d(32, 16, 2, 2)
        self.up1 = nn.ConvTranspose2d(16, 8, 2, 2)
        self.mix2 = nn.Conv2d(32, 16, 3, padding=1)
        self.out = nn.Conv2d(16, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        b = self.mix2(torch.cat([self.up2(c), b], 1)).relu()
        return self.out(torch.cat([self.up1(b), a], 1))


def cells_in_images():
    batch = torch.randn(2, 1, 50, 50), torch.randint(0, 2, (2, 1, 50, 50)).float()
    return UNet(), batch, nn.BCEWithLogitsLoss()


class PixelDenoiser(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.time = nn.Embedding(steps, 16)
        self.inp = nn.Conv2d(3, 16, 3, padding=1)
        self.out = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x, t):
        return self.out(F.silu(self.inp(x) + self.time(t)[:, :, None, None]))


def pixels_with_noise():
    steps = 50
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, steps), 0)

    def loss(model, images):
        t = torch.randint(0, steps, (len(images),), device=images.device)
        noise = torch.randn_like(images)
        a = alpha_bar.to(images.device)[t]
        noisy = a.sqrt() * images + (1 - a).sqrt() * noise
        return F.mse_loss(model(noisy, t), noise)

    return PixelDenoiser(steps), torch.randn(8, 3, 16, 16), loss


class LoRA(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.02)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.a.t() @ self.b.t()


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, ids):
        x = self.embed(ids)
        return self.head((x + self.attention(x, x, x)[0]).mean(1))


def adapted_attention():
    model = Reader().requires_grad_(False)
    model.attention.out_proj = LoRA(model.attention.out_proj)
    model.head.requires_grad_(True)
    batch = torch.randint(0, 50, (8, 12)), torch.randint(0, 3, (8,))
    return model, batch, nn.CrossEntropyLoss()


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 2), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))


def deterministic_policy():
    model = ActorCritic()
    critic_step = torch.optim.Adam(model.critic.parameters(), lr=1e-3)
    actor_step = torch.optim.Adam(model.actor.parameters(), lr=1e-3)
    batch = torch.randn(32, 6), torch.rand(32, 2) * 2 - 1, torch.randn(32, 1)

    def loss(model, batch):
        state, action, target = batch
        actor_loss = -model.critic(torch.cat([state, model.actor(state)], 1)).mean()
        critic_loss = F.mse_loss(model.critic(torch.cat([state, action], 1)), target)
        critic_step.zero_grad()
        critic_loss.backward()
        critic_step.step()
        return actor_loss

    return {"model": model, "batch": batch, "loss": loss, "optimizer": actor_step}


class Reviews(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        ids = torch.randint(1, 100, (12,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "attention_mask": torch.ones(12).long(), "sentiment": i % 2}


def _tiny_bert(**options):
    return BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        **options,
    )


def review_trainer():
    arguments = TrainingArguments(
        output_dir="/tmp/reviews", per_device_train_batch_size=4, report_to="none", use_cpu=True
    )
    model = BertForSequenceClassification(_tiny_bert(num_labels=2))
    return Trainer(model=model, args=arguments, train_dataset=Reviews())


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.message, self.out = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x, edge_index):
        source, target = edge_index
        m = self.message(x).relu().float()
        gathered = torch.zeros_like(m).index_add(0, target, m[source])
        return self.out(gathered)


def citations():
    edges = torch.randint(0, 30, (90, 2))
    batch = torch.randn(30, 8), edges, torch.randint(0, 3, (30,))
    return GraphNet(), batch, lambda m, b: F.cross_entropy(m(b[0], b[1]), b[2])


def replayed_transitions():
    q = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    target = copy.deepcopy(q).requires_grad_(False)
    batch = torch.randn(32, 4), torch.randint(0, 2, (32,)), torch.ones(32), torch.randn(32, 4)

    def loss(model, batch):
        state, action, reward, following = batch
        value = model(state).gather(1, action).squeeze(1)
        best = target(following).max(1).values
        return F.smooth_l1_loss(value, reward + 0.99 * best)

    return q, batch, loss


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        context = x.cumsum(1) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        return x + self.down(F.gelu(self.up(self.norm(x + context))))


class Decoder(nn.Module):
    def __init__(self, vocabulary=96, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(3))
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, input_ids, labels):
        x = self.embed(input_ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return F.cross_entropy(self.head(x[:, :-1]).flatten(0, 1), labels[:, 1:].flatten())


def instructions_for_a_decoder():
    model = Decoder().requires_grad_(False)
    for block in model.blocks:
        block.up, block.down = LoRA(block.up), LoRA(block.down)
    ids = torch.randint(0, 96, (4, 16))
    return model, {"input_ids": ids, "labels": ids.clone()}
