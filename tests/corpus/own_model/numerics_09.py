"""Trainings adapted from papers and from other people's repositories."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Beta, Normal
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC


class Actor(nn.Module):
    def __init__(self, states, actions, bound):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(states, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.mean = nn.Linear(64, actions)
        self.log_std = nn.Linear(64, actions)
        self.bound = bound

    def forward(self, state):
        h = self.body(state)
        normal = Normal(self.mean(h), self.log_std(h).clamp(-5, 2).exp())
        raw = normal.rsample()
        action = torch.tanh(raw) * self.bound
        log_prob = normal.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)
        return action, log_prob.sum(1)


def soft_actor():
    actor = Actor(6, 3, bound=2.0)
    critic = nn.Sequential(nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 1)).requires_grad_(False)
    states = torch.randn(64, 6)

    def loss(model, batch):
        action, log_prob = model(batch)
        value = critic(torch.cat([batch, action], 1)).squeeze(1)
        return (0.2 * log_prob - value).mean()

    return actor, states, loss


class BoxHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()
        )
        self.boxes = nn.Linear(256, 4)

    def forward(self, images):
        return self.boxes(self.features(images)).float().sigmoid()


def _complete_iou(pred, gt):
    low = torch.max(pred[:, :2] - pred[:, 2:] / 2, gt[:, :2] - gt[:, 2:] / 2)
    high = torch.min(pred[:, :2] + pred[:, 2:] / 2, gt[:, :2] + gt[:, 2:] / 2)
    inter = (high - low).clamp(min=0).prod(1)
    union = pred[:, 2:].prod(1) + gt[:, 2:].prod(1) - inter + 1e-7
    iou = inter / union
    outer_low = torch.min(pred[:, :2] - pred[:, 2:] / 2, gt[:, :2] - gt[:, 2:] / 2)
    outer_high = torch.max(pred[:, :2] + pred[:, 2:] / 2, gt[:, :2] + gt[:, 2:] / 2)
    diagonal = (outer_high - outer_low).pow(2).sum(1) + 1e-7
    centre = (pred[:, :2] - gt[:, :2]).pow(2).sum(1) / diagonal
    angle = torch.atan(gt[:, 2] / gt[:, 3]) - torch.atan(pred[:, 2] / pred[:, 3])
    v = 4 / math.pi**2 * angle.pow(2)
    with torch.no_grad():
        alpha = v / (1 - iou + v + 1e-7)
    return 1 - iou + centre + alpha * v


def one_box_per_image():
    boxes = torch.rand(8, 4) * 0.4 + 0.2
    valid = torch.ones(8)
    boxes[5], valid[5] = 0.0, 0.0
    batch = torch.randn(8, 3, 32, 32), boxes, valid

    def loss(model, batch):
        images, boxes, valid = batch
        return (_complete_iou(model(images), boxes) * valid).sum() / valid.sum()

    return BoxHead(), batch, loss


class GeM(nn.Module):
    def __init__(self, p=3.0):
        super().__init__()
        self.p = nn.Parameter(torch.tensor(p))

    def forward(self, x):
        return x.float().pow(self.p).mean((2, 3)).pow(1.0 / self.p)


def retrieval_with_gem():
    backbone = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU()
    )
    with torch.no_grad():
        backbone[2].bias[::8] = -4.0
    model = nn.Sequential(backbone, GeM(), nn.Linear(64, 10))
    return model, (torch.randn(16, 3, 32, 32), torch.arange(16) % 10), nn.CrossEntropyLoss()


class Denoiser(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.time = nn.Embedding(steps, 32)
        self.net = nn.Sequential(nn.Linear(16 + 32, 128), nn.SiLU(), nn.Linear(128, 16))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time(t)], 1))


def _rescaled_schedule(steps):
    root = torch.cumprod(1 - torch.linspace(1e-4, 0.02, steps), 0).sqrt()
    root = (root - root[-1]) * root[0] / (root[0] - root[-1])
    return root**2


def denoiser_with_min_snr():
    steps = 100
    alpha_bar = _rescaled_schedule(steps)
    batch = torch.randn(100, 16), torch.arange(100)

    def loss(model, batch):
        x, t = batch
        a = alpha_bar.to(x.device)[t].unsqueeze(1)
        noise = torch.randn_like(x)
        error = F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise, reduction="none")
        snr = (a / (1 - a)).squeeze(1)
        weight = snr.clamp(max=5.0) / snr
        return (weight * error.mean(1)).mean()

    return Denoiser(steps), batch, loss


def _generalized_dice(logits, target):
    probs = logits.float().softmax(1)
    onehot = F.one_hot(target, logits.shape[1]).movedim(-1, 1).float()
    weight = 1 / onehot.sum((0, 2, 3)).pow(2)
    overlap = (weight * (probs * onehot).sum((0, 2, 3))).sum()
    total = (weight * (probs + onehot).sum((0, 2, 3))).sum()
    return 1 - 2 * overlap / (total + 1e-6)


def organs_in_slices():
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 5, 1)
    )
    batch = torch.randn(4, 1, 24, 24), torch.randint(0, 4, (4, 24, 24))
    return model, batch, lambda m, b: _generalized_dice(m(b[0]), b[1])


class TwoTowers(nn.Module):
    def __init__(self, temperature=100.0):
        super().__init__()
        self.image = nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 32))
        self.text = nn.Sequential(nn.Linear(24, 64), nn.GELU(), nn.Linear(64, 32))
        self.logit_scale = nn.Parameter(torch.tensor(temperature))

    def forward(self, image, text):
        a = F.normalize(self.image(image), dim=-1)
        b = F.normalize(self.text(text), dim=-1)
        logits = self.logit_scale.exp() * a @ b.t()
        labels = torch.arange(len(a), device=a.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


def image_text_towers():
    return TwoTowers(), (torch.randn(16, 48), torch.randn(16, 24))


def _evidential(logits, target):
    alpha = logits.float().relu()
    strength = alpha.sum(1, keepdim=True)
    onehot = F.one_hot(target, logits.shape[1])
    return (onehot * (torch.digamma(strength) - torch.digamma(alpha))).sum(1).mean()


def evidential_classifier():
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 6))
    batch = torch.randn(64, 20), torch.arange(64) % 6
    return model, batch, lambda m, b: _evidential(m(b[0]), b[1])


class HyperbolicTree(nn.Module):
    def __init__(self, nodes, dim):
        super().__init__()
        self.table = nn.Embedding(nodes, dim)
        nn.init.uniform_(self.table.weight, -0.05, 0.05)

    def forward(self, parents, children):
        u, v = self.table(parents), self.table(children)
        u, v = u.unsqueeze(1), v.unsqueeze(0)
        gap = (u - v).pow(2).sum(-1)
        room = (1 - u.pow(2).sum(-1)) * (1 - v.pow(2).sum(-1))
        distance = torch.acosh(1 + 2 * gap / room)
        return F.cross_entropy(-distance, torch.arange(len(parents), device=parents.device))


def words_in_a_ball():
    parents = torch.tensor([0, 0, 1, 1, 2, 2, 3])
    children = torch.tensor([1, 2, 3, 4, 5, 6, 7])
    return HyperbolicTree(8, 5), (parents, children)


def _transport(cost, eps=1e-3, rounds=10):
    kernel = torch.exp(-cost / eps)
    a = torch.full((cost.shape[0],), 1 / cost.shape[0], device=cost.device)
    b = torch.full((cost.shape[1],), 1 / cost.shape[1], device=cost.device)
    v = torch.ones_like(b)
    for _ in range(rounds):
        u = a / (kernel @ v)
        v = b / (kernel.t() @ u)
    return u[:, None] * kernel * v[None, :]


def matched_point_clouds():
    model = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 3))
    batch = torch.randn(32, 3), torch.randn(32, 3) + 1

    def loss(model, batch):
        source, target = batch
        moved = model(source).float()
        cost = (moved[:, None] - target[None]).pow(2).sum(-1)
        return (_transport(cost) * cost).sum()

    return model, batch, loss


def speech_recognizer():
    config = Wav2Vec2Config(
        vocab_size=32,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        conv_dim=(32, 32, 32),
        conv_stride=(5, 4, 4),
        conv_kernel=(10, 8, 4),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
        mask_time_prob=0.0,
        layerdrop=0.0,
        pad_token_id=0,
        ctc_loss_reduction="mean",
    )
    labels = torch.randint(1, 32, (2, 30))
    return Wav2Vec2ForCTC(config), {"input_values": torch.randn(2, 2000), "labels": labels}


class BetaPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 64), nn.Tanh())
        self.alpha, self.beta = nn.Linear(64, 2), nn.Linear(64, 2)

    def forward(self, state):
        h = self.body(state)
        return Beta(
            F.softplus(self.alpha(h)).float() + 1.0,
            F.softplus(self.beta(h)).float() + 1.0,
        )


def bounded_actions():
    actions = torch.rand(32, 2).clamp(0.05, 0.95)
    actions[7, 1] = 1.0
    batch = torch.randn(32, 8), actions, torch.randn(32)

    def loss(model, batch):
        states, actions, advantages = batch
        return -(model(states).log_prob(actions).sum(1) * advantages).mean()

    return BetaPolicy(), batch, loss


def _supervised_contrastive(features, labels, temperature=0.1):
    features = F.normalize(features.float(), dim=1)
    logits = features @ features.t() / temperature
    eye = torch.eye(len(labels), device=labels.device)
    positives = (labels[:, None] == labels[None]).float() - eye
    logits = logits - logits.max(1, keepdim=True).values.detach()
    log_prob = logits - torch.log((logits.exp() * (1 - eye)).sum(1, keepdim=True))
    return -((positives * log_prob).sum(1) / positives.sum(1)).mean()


def labels_as_views():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 32)
    )
    batch = torch.randn(8, 3, 20, 20), torch.tensor([0, 0, 1, 1, 2, 3, 3, 3])
    return model, batch, lambda m, b: _supervised_contrastive(m(b[0]), b[1])


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, origins, directions):
        z = torch.linspace(0.5, 4.0, 24, device=origins.device)
        points = origins[:, None] + directions[:, None] * z[None, :, None]
        inside = (points.abs() < 1).all(-1).float()
        sigma = F.softplus(self.net(points).squeeze(-1).float()) * inside
        alpha = 1 - torch.exp(-sigma * (z[1] - z[0]))
        clear = torch.cumprod(1 - alpha + 1e-10, 1)
        weights = alpha * torch.cat([torch.ones_like(clear[:, :1]), clear[:, :-1]], 1)
        return (weights * z).sum(1) / weights.sum(1)


def depth_of_rays():
    origins = torch.tensor([0.0, 0.0, -2.0]).expand(32, 3) + 0.05 * torch.randn(32, 3)
    directions = F.normalize(torch.cat([0.2 * torch.randn(32, 2), torch.ones(32, 1)], 1), dim=1)
    directions[11] = torch.tensor([1.0, 0.0, 0.0])
    batch = origins, directions, torch.full((32,), 1.5)
    return Field(), batch, lambda model, b: F.l1_loss(model(b[0], b[1]), b[2])
