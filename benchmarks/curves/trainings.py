"""Small, healthy trainings whose losses are noisy: their curves are data for the rules of LOG093 to
LOG095, which must stay silent on all of them.

    python benchmarks/curves/trainings.py [--steps 4000] > curves.jsonl

One line per training: its name, and the loss of each step. A curve ends well by construction: the
learning rate is low enough, and `check` compares a mean of many samples before and after.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator

import torch  # noqa: TID253 - a training of its own
from torch import Tensor, nn  # noqa: TID253
from torch.nn import functional  # noqa: TID253

Steps = Iterator[float]


def network(inputs: int, outputs: int, width: int = 64) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
        nn.Linear(width, outputs),
    )  # fmt: skip


def _optimize(model: nn.Module, rate: float, loss_of: Callable[[], Tensor]) -> Steps:
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    while True:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        yield loss.item()


def diffusion(batch: int, warm: int) -> Steps:
    """Denoising of points on two moons: the loss depends on the noise level that is drawn."""
    model = network(3, 2)

    def loss() -> Tensor:
        angle = torch.rand(batch) * math.pi * 2
        clean = torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(batch, 2)
        level, noise = torch.rand(batch, 1), torch.randn(batch, 2)
        noisy = (1 - level).sqrt() * clean + level.sqrt() * noise
        return functional.mse_loss(model(torch.cat([noisy, level], 1)), noise)

    steps = _optimize(model, 1e-3, loss)
    for _ in range(warm):
        next(steps)
    return steps


def regression(batch: int, noise: float) -> Steps:
    model, weights = network(8, 1), torch.randn(8, 1)

    def loss() -> Tensor:
        x = torch.randn(batch, 8)
        return functional.mse_loss(
            model(x), torch.tanh(x @ weights) + noise * torch.randn(batch, 1)
        )

    return _optimize(model, 1e-3, loss)


def classification(batch: int, flipped: float) -> Steps:
    model, weights = network(16, 4), torch.randn(16, 4)

    def loss() -> Tensor:
        x = torch.randn(batch, 16)
        labels = (x @ weights).argmax(1)
        wrong = torch.rand(batch) < flipped
        labels = torch.where(wrong, torch.randint(0, 4, (batch,)), labels)
        return functional.cross_entropy(model(x), labels)

    return _optimize(model, 1e-3, loss)


def language(batch: int, length: int) -> Steps:
    """Next tokens of a random Markov chain, sequences of varying length."""
    vocabulary = 32
    chain = torch.softmax(3 * torch.randn(vocabulary, vocabulary), 1)
    model = nn.Sequential(nn.Embedding(vocabulary, 32), network(32, vocabulary))

    def loss() -> Tensor:
        size = int(torch.randint(length // 4, length, ()))
        tokens = [torch.randint(0, vocabulary, (batch,))]
        for _ in range(size):
            tokens.append(torch.multinomial(chain[tokens[-1]], 1)[:, 0])
        text = torch.stack(tokens, 1)
        return functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())

    return _optimize(model, 2e-3, loss)


def preference(batch: int) -> Steps:
    """DPO: -log sigmoid of a margin that grows, from ln 2 on."""
    model, weights = nn.Linear(16, 1, bias=False), torch.randn(16, 1)
    nn.init.zeros_(model.weight)

    def loss() -> Tensor:
        chosen, rejected = torch.randn(2, batch, 16).unbind()
        better = ((chosen - rejected) @ weights + torch.randn(batch, 1)) > 0
        margin = model(chosen) - model(rejected)
        return -functional.logsigmoid(torch.where(better, margin, -margin)).mean()

    return _optimize(model, 1e-3, loss)


def adversarial(batch: int, of_generator: bool) -> Steps:
    generator, critic = network(4, 2), network(2, 1)
    slow = torch.optim.AdamW(generator.parameters(), 5e-4, betas=(0.5, 0.99))
    fast = torch.optim.AdamW(critic.parameters(), 5e-4, betas=(0.5, 0.99))
    while True:
        real = torch.randn(batch, 2) * torch.tensor([1.0, 0.3]) + 1
        fake = generator(torch.randn(batch, 4))
        lost = functional.softplus(-critic(real)).mean()
        lost = lost + functional.softplus(critic(fake.detach())).mean()
        fast.zero_grad()
        lost.backward()
        fast.step()
        fooled = functional.softplus(-critic(fake)).mean()
        slow.zero_grad()
        fooled.backward()
        slow.step()
        yield fooled.item() if of_generator else lost.item()


def policy(batch: int) -> Steps:
    """REINFORCE with a baseline: the loss has either sign and no trend."""
    model, weights, baseline = network(8, 4), torch.randn(8, 4), [0.0]

    def loss() -> Tensor:
        x = torch.randn(batch, 8)
        chances = torch.distributions.Categorical(logits=model(x))
        action = chances.sample()
        reward = (x @ weights).gather(1, action[:, None])[:, 0]
        advantage = reward - baseline[0]
        baseline[0] += 0.05 * (float(reward.mean()) - baseline[0])
        return -(chances.log_prob(action) * advantage).mean()

    return _optimize(model, 1e-3, loss)


def critic(batch: int) -> Steps:
    """A value function that learns from its own predictions while rewards grow."""
    model, step = network(4, 1), [0]

    def loss() -> Tensor:
        step[0] += 1
        x = torch.randn(batch, 4)
        reward = x[:, :1] * (1 + min(step[0], 500) / 1000) + 0.5 * torch.randn(batch, 1)
        with torch.no_grad():
            target = reward + 0.9 * model(x + 0.1 * torch.randn_like(x))
        return functional.smooth_l1_loss(model(x), target)

    return _optimize(model, 5e-4, loss)


def autoencoder(batch: int) -> Steps:
    encoder, decoder = network(16, 4), network(2, 16)
    model, mixing = nn.ModuleList([encoder, decoder]), torch.randn(2, 16)

    def loss() -> Tensor:
        x = torch.tanh(torch.randn(batch, 2) @ mixing) + 0.1 * torch.randn(batch, 16)
        mean, spread = encoder(x).chunk(2, 1)
        code = mean + (0.5 * spread).exp() * torch.randn_like(mean)
        kept = functional.mse_loss(decoder(code), x, reduction="none").sum(1).mean()
        return kept - 0.5 * (1 + spread - mean**2 - spread.exp()).sum(1).mean()

    return _optimize(model, 1e-3, loss)


def contrastive(batch: int) -> Steps:
    model = network(16, 8)

    def loss() -> Tensor:
        x = torch.randn(batch, 16)
        left, right = model(x + 0.3 * torch.randn_like(x)), model(x + 0.3 * torch.randn_like(x))
        scores = functional.normalize(left) @ functional.normalize(right).T / 0.1
        return functional.cross_entropy(scores, torch.arange(batch))

    return _optimize(model, 1e-3, loss)


TRAININGS: dict[str, Callable[[], Steps]] = {
    **{f"diffusion-batch-{n}": lambda n=n: diffusion(n, 0) for n in (1, 2, 4, 16)},
    **{f"diffusion-batch-{n}-warm": lambda n=n: diffusion(n, 1500) for n in (1, 2, 4, 16)},
    **{f"regression-batch-{n}": lambda n=n: regression(n, 0.5) for n in (1, 4, 16)},
    "regression-exact": lambda: regression(16, 0.0),
    **{f"classification-batch-{n}": lambda n=n: classification(n, 0.2) for n in (1, 4, 16)},
    "classification-clean": lambda: classification(8, 0.0),
    **{f"language-batch-{n}": lambda n=n: language(n, 64) for n in (1, 4)},
    "language-short": lambda: language(1, 12),
    **{f"preference-batch-{n}": lambda n=n: preference(n) for n in (2, 8)},
    **{f"generator-batch-{n}": lambda n=n: adversarial(n, True) for n in (8, 32)},
    **{f"discriminator-batch-{n}": lambda n=n: adversarial(n, False) for n in (8, 32)},
    **{f"policy-batch-{n}": lambda n=n: policy(n) for n in (4, 32)},
    **{f"critic-batch-{n}": lambda n=n: critic(n) for n in (4, 16)},
    **{f"autoencoder-batch-{n}": lambda n=n: autoencoder(n) for n in (2, 16)},
    **{f"contrastive-batch-{n}": lambda n=n: contrastive(n) for n in (4, 16)},
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    for seed, (name, training) in enumerate(TRAININGS.items()):
        torch.manual_seed(seed)
        losses = training()
        values = [float(f"{next(losses):.4g}") for _ in range(steps)]
        json.dump({"name": name, "loss": values}, sys.stdout, separators=(",", ":"))
        print(flush=True)


if __name__ == "__main__":
    main()
