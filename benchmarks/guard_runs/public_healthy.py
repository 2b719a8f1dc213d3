"""Healthy programs, rebuilt in our own words after public ones; the address is in the text of each.

No alarm is expected of any; that was written before the first run.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

from .models import STEPS, batches, cross_entropy, lm
from .public_faults import images


def mlp(*sizes: int) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = [(nn.Linear(a, b), nn.ReLU()) for a, b in itertools.pairwise(sizes)]
    return nn.Sequential(*list(itertools.chain(*layers))[:-1])


def dcgan() -> None:
    """https://github.com/pytorch/examples/blob/main/dcgan/main.py"""
    import torch
    from torch import nn

    g, d = mlp(8, 16, 64), mlp(64, 16, 1)
    of_g, of_d = (torch.optim.Adam(m.parameters(), 2e-4, betas=(0.5, 0.999)) for m in (g, d))
    bce = nn.BCEWithLogitsLoss()
    for real, _ in itertools.islice(forever(images(lambda n: n % 10)), STEPS):
        d.zero_grad()
        bce(d(real.flatten(1)), torch.ones(len(real), 1)).backward()
        fake = g(torch.randn(len(real), 8))
        bce(d(fake.detach()), torch.zeros(len(real), 1)).backward()
        of_d.step()
        g.zero_grad()
        bce(d(fake), torch.ones(len(real), 1)).backward()
        of_g.step()


def forever(data: Any, size: int = 8) -> Iterator[Any]:
    import torch

    while True:
        yield from torch.utils.data.DataLoader(data, size, shuffle=True)


def vae() -> None:
    """https://github.com/pytorch/examples/blob/main/vae/main.py"""
    import torch

    encoder, decoder = mlp(64, 32, 8), mlp(4, 32, 64)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-3)
    for image, _ in itertools.islice(forever(images(lambda n: 0)), STEPS):
        optimizer.zero_grad()
        mean, spread = encoder(image.flatten(1)).chunk(2, 1)
        made = decoder(mean + torch.randn_like(mean) * (0.5 * spread).exp())
        kl = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum()
        ((made - image.flatten(1)).pow(2).sum() + kl).backward()
        optimizer.step()


def sine_waves_by_lbfgs() -> None:
    """https://github.com/pytorch/examples/blob/main/time_sequence_prediction/train.py"""
    import torch

    model = mlp(4, 16, 1).double()
    wave = torch.sin(torch.arange(60).double() / 5).unfold(0, 5, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (model(wave[:, :4]) - wave[:, 4:]).pow(2).mean()
        loss.backward()
        return loss

    for _ in range(15):
        optimizer.step(closure)


def reinforce() -> None:
    """https://github.com/pytorch/examples/blob/main/reinforcement_learning/reinforce.py"""
    import torch

    policy = mlp(4, 32, 2)
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    for episode in range(STEPS // 3):
        states = torch.randn(5 + episode % 20, 4)
        choices = torch.distributions.Categorical(logits=policy(states))
        actions = choices.sample()
        rewards = (actions == (states[:, 0] > 0)).float().flip(0).cumsum(0).flip(0)
        rewards = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        optimizer.zero_grad()
        (-choices.log_prob(actions) * rewards).sum().backward()
        optimizer.step()


def siamese() -> None:
    """https://github.com/pytorch/examples/blob/main/siamese_network/main.py"""
    import torch
    from torch import nn

    tower, head = mlp(64, 32, 16), mlp(32, 1)
    parameters = [*tower.parameters(), *head.parameters()]
    optimizer = torch.optim.Adadelta(parameters, 1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7)
    for _ in range(8):
        data = torch.utils.data.DataLoader(images(lambda n: n % 2), 8, shuffle=True)
        for image, label in data:
            pair = torch.cat([tower(image.flatten(1)), tower(image.flip(0).flatten(1))], 1)
            optimizer.zero_grad()
            target = (label == label.flip(0)).float()[:, None]
            nn.functional.binary_cross_entropy_with_logits(head(pair), target).backward()
            optimizer.step()
        schedule.step()


def forward_forward() -> None:
    """https://github.com/pytorch/examples/blob/main/mnist_forward_forward/main.py"""
    import torch

    layers = [mlp(16, 16), mlp(16, 16)]
    optimizers = [torch.optim.Adam(layer.parameters(), 0.01) for layer in layers]
    for _ in range(STEPS // 3):
        good, bad = torch.randn(8, 16) + 1, torch.randn(8, 16)
        for layer, optimizer in zip(layers, optimizers, strict=True):
            a, b = layer(good).relu(), layer(bad).relu()
            loss = torch.nn.functional.softplus(torch.cat([2 - a.pow(2).mean(1), b.pow(2).mean(1)]))
            optimizer.zero_grad()
            loss.mean().backward()
            optimizer.step()
            good, bad = a.detach(), b.detach()


def graph_attention() -> None:
    """https://github.com/pytorch/examples/blob/main/gat/main.py: the whole graph in each step"""
    import torch

    model = mlp(8, 16, 3)
    nodes, links, label = torch.randn(60, 8), torch.rand(60, 60).softmax(1), torch.arange(60) % 3
    optimizer = torch.optim.Adam(model.parameters(), 5e-3, weight_decay=5e-4)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy((links @ model(nodes))[:40], label[:40]).backward()
        optimizer.step()


def style_of_one_image() -> None:
    """https://github.com/pytorch/examples/blob/main/fast_neural_style: only the image is trained"""
    import torch

    features = mlp(64, 32, 32).requires_grad_(False)
    picture = torch.nn.Parameter(torch.zeros(1, 64))
    optimizer = torch.optim.Adam([picture], 0.05)
    wanted = features(torch.randn(1, 64))
    for _ in range(STEPS):
        optimizer.zero_grad()
        (features(picture + 0.01 * torch.randn(1, 64)) - wanted).pow(2).mean().backward()
        optimizer.step()


def nano_gpt() -> None:
    """https://github.com/karpathy/nanoGPT/blob/master/train.py: two groups, warm-up, clip"""
    import math

    import torch

    model = lm(tie=True)
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, 6e-4, betas=(0.9, 0.95))
    for step in range(STEPS):
        cosine = 0.5 * (1 + math.cos(math.pi * step / STEPS))
        for group in optimizer.param_groups:
            group["lr"] = 6e-4 * min((step + 1) / 20, 0.1 + 0.9 * cosine)
        for x, y in batches(3):
            (cross_entropy(model, x, y) / 3).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def ppo() -> None:
    """https://github.com/vwxyzjn/cleanrl/blob/master/cleanrl/ppo.py"""
    import torch

    actor, critic = mlp(4, 32, 2), mlp(4, 32, 1)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, 2.5e-4, eps=1e-5)
    for update in range(STEPS // 16):
        optimizer.param_groups[0]["lr"] = 2.5e-4 * (1 - update / (STEPS // 16))
        states = torch.randn(64, 4)
        with torch.no_grad():
            old = torch.distributions.Categorical(logits=actor(states))
            actions = old.sample()
            returns = (actions == (states[:, 0] > 0)).float()
        for part in itertools.chain(*[torch.randperm(64).chunk(4) for _ in range(4)]):
            new = torch.distributions.Categorical(logits=actor(states[part]))
            ratio = (new.log_prob(actions[part]) - old.log_prob(actions)[part]).exp()
            gain = returns[part] - returns[part].mean()
            policy = -torch.min(gain * ratio, gain * ratio.clamp(0.8, 1.2)).mean()
            value = 0.5 * (critic(states[part])[:, 0] - returns[part]).pow(2).mean()
            optimizer.zero_grad()
            (policy + value - 0.01 * new.entropy().mean()).backward()
            torch.nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()


def soft_actor_critic() -> None:
    """https://github.com/vwxyzjn/cleanrl/blob/master/cleanrl/sac_continuous_action.py"""
    import torch

    actor, critics = mlp(3, 32, 1), [mlp(4, 32, 1), mlp(4, 32, 1)]
    targets = copy.deepcopy(critics)
    q_parameters = [p for critic in critics for p in critic.parameters()]
    of_q = torch.optim.Adam(q_parameters, 1e-3)
    of_actor = torch.optim.Adam(actor.parameters(), 3e-4)
    log_alpha = torch.zeros(1, requires_grad=True)
    of_alpha = torch.optim.Adam([log_alpha], 1e-3)
    for step in range(STEPS):
        state, action = torch.randn(16, 3), torch.randn(16, 1)
        with torch.no_grad():
            after = torch.cat([state, actor(state)], 1)
            wanted = -state[:, :1].pow(2) + 0.9 * torch.min(*[t(after) for t in targets])
        both = torch.cat([state, action], 1)
        of_q.zero_grad()
        sum((q(both) - wanted).pow(2).mean() for q in critics).backward()
        of_q.step()
        if step % 2 == 0:
            for _ in range(2):
                chosen = torch.cat([state, actor(state)], 1)
                of_actor.zero_grad()
                (-torch.min(*[q(chosen) for q in critics])).mean().backward()
                of_actor.step()
                of_alpha.zero_grad()
                (-log_alpha.exp() * (actor(state).detach().abs().mean() - 1)).mean().backward()
                of_alpha.step()
        for target, critic in zip(targets, critics, strict=True):
            for old, new in zip(target.parameters(), critic.parameters(), strict=True):
                old.data.lerp_(new.data, 0.005)


def sharpness_aware() -> None:
    """https://github.com/davda54/sam: two passes for each step"""
    import torch

    model = lm()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for x, y in batches():
        cross_entropy(model, x, y).backward()
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            moved = [p.grad * (0.05 / norm) for p in model.parameters()]
            torch._foreach_add_(list(model.parameters()), moved)
        optimizer.zero_grad()
        cross_entropy(model, x, y).backward()
        with torch.no_grad():
            torch._foreach_sub_(list(model.parameters()), moved)
        optimizer.step()
        optimizer.zero_grad()


def simsiam() -> None:
    """https://github.com/facebookresearch/simsiam/blob/main/main_simsiam.py"""
    import torch
    from torch import nn

    encoder, predictor = mlp(64, 32, 16), mlp(16, 8, 16)
    parameters = [{"params": encoder.parameters()}, {"params": predictor.parameters()}]
    optimizer = torch.optim.SGD(parameters, 0.05, momentum=0.9)
    for image, _ in itertools.islice(forever(images(lambda n: n % 10), 16), STEPS):
        views = [(image + 0.1 * torch.randn_like(image)).flatten(1) for _ in range(2)]
        codes = [encoder(view) for view in views]
        pairs = zip(codes, reversed(codes), strict=True)
        loss = -sum(
            nn.functional.cosine_similarity(predictor(a), b.detach()).mean() for a, b in pairs
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def dino() -> None:
    """https://github.com/facebookresearch/dino/blob/main/main_dino.py: the last layer waits"""
    import torch

    student = mlp(64, 32, 16)
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.AdamW(student.parameters(), 1e-3)
    centre = torch.zeros(16)
    for step, (image, _) in enumerate(itertools.islice(forever(images(lambda n: 0)), STEPS)):
        flat = image.flatten(1)
        wanted = ((teacher(flat) - centre) / 0.04).softmax(1)
        views = flat + 0.1 * torch.randn_like(flat)
        optimizer.zero_grad()
        (-wanted * (student(views) / 0.1).log_softmax(1)).sum(1).mean().backward()
        if step < 40:
            for p in list(student.parameters())[-2:]:
                p.grad = None
        optimizer.step()
        with torch.no_grad():
            centre = 0.9 * centre + 0.1 * teacher(flat).mean(0)
            for old, new in zip(teacher.parameters(), student.parameters(), strict=True):
                old.lerp_(new, 0.004)


def siren() -> None:
    """https://github.com/vsitzmann/siren: a dataset of one image, the same in each epoch"""
    import torch

    grid = torch.cartesian_prod(torch.linspace(-1, 1, 12), torch.linspace(-1, 1, 12))
    pixels = (grid.pow(2).sum(1, keepdim=True) < 0.5).float()
    model = mlp(2, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loader = torch.utils.data.DataLoader([(grid, pixels)], batch_size=1)
    for _ in range(STEPS):
        for where, wanted in loader:
            optimizer.zero_grad()
            (model(where) - wanted).pow(2).mean().backward()
            optimizer.step()


def diffusion() -> None:
    """https://github.com/lucidrains/denoising-diffusion-pytorch: noise levels, an average, clip"""
    import torch

    model = mlp(65, 64, 64)
    average = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, 0.99))
    for image, _ in itertools.islice(forever(images(lambda n: 0)), STEPS):
        flat, level = image.flatten(1), torch.rand(len(image), 1)
        noise = torch.randn_like(flat)
        made = model(torch.cat([flat * (1 - level) + noise * level, level], 1))
        (made - noise).pow(2).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        for old, new in zip(average.parameters(), model.parameters(), strict=True):
            old.data.lerp_(new.data, 0.005)


def preferences() -> None:
    """https://github.com/eric-mitchell/direct-preference-optimization/blob/main/trainers.py"""
    import torch

    policy = lm()
    reference = copy.deepcopy(policy).requires_grad_(False)
    optimizer = torch.optim.RMSprop(policy.parameters(), 5e-5)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 151))

    def likelihood(model: Any, x: Any, y: Any) -> Any:
        return model(x).log_softmax(-1).gather(-1, y[..., None]).sum((1, 2))

    for x, good in batches():
        bad = (good + 5) % 48
        gain = likelihood(policy, x, good) - likelihood(policy, x, bad)
        with torch.no_grad():
            base = likelihood(reference, x, good) - likelihood(reference, x, bad)
        optimizer.zero_grad()
        (-torch.nn.functional.logsigmoid(0.1 * (gain - base))).mean().backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
        optimizer.step()
        warm.step()


def muon_beside_adam() -> None:
    """https://github.com/KellerJordan/modded-nanogpt: two optimizers, one pass"""
    import torch

    model = lm()
    matrices = [p for p in model.blocks.parameters() if p.dim() == 2]
    held = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in held]
    optimizers = [torch.optim.Muon(matrices, 0.02), torch.optim.AdamW(rest, 1e-3)]
    for x, y in batches():
        cross_entropy(model, x, y).backward()
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad(set_to_none=True)


def transfer_learning() -> None:
    """https://github.com/pytorch/tutorials/blob/main/beginner_source/transfer_learning_tutorial.py"""
    import torch
    from torch import nn

    backbone, head = mlp(64, 32, 32).requires_grad_(False), nn.Linear(32, 2)
    model = nn.Sequential(nn.Flatten(), backbone, nn.Dropout(0.2), head)
    optimizer = torch.optim.SGD(head.parameters(), 0.01, momentum=0.9)
    for _ in range(12):
        for phase in ("train", "val"):
            model.train(phase == "train")
            for image, label in torch.utils.data.DataLoader(
                images(lambda n: n % 2), 8, shuffle=True
            ):
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    loss = nn.functional.cross_entropy(model(image), label)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()


def two_optimizers_of_a_translation() -> None:
    """https://github.com/pytorch/tutorials: seq2seq_translation_tutorial, one row per step"""
    import torch
    from torch import nn

    torch.manual_seed(0)
    encoder, decoder = nn.GRU(8, 16), nn.GRU(8, 16)
    words, out = nn.Embedding(48, 8), nn.Linear(16, 48)
    of_e = torch.optim.SGD([*encoder.parameters(), *words.parameters()], 0.01)
    of_d = torch.optim.SGD([*decoder.parameters(), *out.parameters()], 0.01)
    for number in range(STEPS):
        x = torch.randint(0, 48, (4 + number % 6, 1))
        of_e.zero_grad()
        of_d.zero_grad()
        _, state = encoder(words(x))
        logits = out(decoder(words(x.flip(0)), state)[0])
        nn.functional.cross_entropy(logits.flatten(0, 1), x.flatten()).backward()
        of_e.step()
        of_d.step()


CLEAN = (
    dcgan,
    vae,
    sine_waves_by_lbfgs,
    reinforce,
    siamese,
    forward_forward,
    graph_attention,
    style_of_one_image,
    nano_gpt,
    ppo,
    soft_actor_critic,
    sharpness_aware,
    simsiam,
    dino,
    siren,
    diffusion,
    preferences,
    muon_beside_adam,
    transfer_learning,
    two_optimizers_of_a_translation,
)
