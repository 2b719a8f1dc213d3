"""Healthy programs that look like a fault, and are meant so. No alarm is expected of any."""

from __future__ import annotations

import itertools
from typing import Any

from .models import STEPS, adamw, batches, cross_entropy, lm, train
from .public_faults import classify, fit, images, rows
from .public_healthy import forever, mlp


def text_and_evaluation_without_labels() -> None:
    """The evaluation's rows have no trained label, and come from a loader with gradients on."""
    import torch

    model = lm()
    optimizer = adamw(model)
    train_rows = torch.utils.data.DataLoader(rows(), 8, shuffle=True)
    eval_rows = torch.utils.data.DataLoader(rows(labels=lambda r: r["labels"] * 0 - 100), 8)
    for _ in range(5):
        for batch in train_rows:
            logits = model(batch["input_ids"])[:, :-1].flatten(0, 1)
            loss = torch.nn.functional.cross_entropy(logits, batch["labels"][:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for batch in eval_rows:
            model(batch["input_ids"])


def curriculum_by_length() -> None:
    fit(sorted(rows(), key=lambda row: int(row["attention_mask"].sum())), shuffle=False)


def overfit_eight_rows() -> None:
    fit(rows(8), epochs=80)


def normal_images_alone() -> None:
    """Anomaly detection trains on one class."""
    classify(images(lambda number: 0))


def balanced_batches() -> None:
    """Batches of one class by a sampler of the user's."""
    import torch

    class OneClass(torch.utils.data.BatchSampler):
        def __iter__(self) -> Any:
            return iter([list(range(n, 160, 10)) for n in range(10)])

    data = images(lambda number: number % 10)
    sampler = OneClass(torch.utils.data.SequentialSampler(data), 16, drop_last=False)
    classify(data, batch_size=1, shuffle=None, batch_sampler=sampler, epochs=30)


def sampler_told_its_epoch() -> None:
    import torch
    from torch.utils.data.distributed import DistributedSampler

    data = rows()
    sampler = DistributedSampler(data, 2, 0)
    model = lm()
    optimizer = adamw(model)
    loader = torch.utils.data.DataLoader(data, 8, sampler=sampler)
    for batch in loader:  # a pass for statistics, before the training
        assert len(batch)
    for epoch in range(8):
        sampler.set_epoch(epoch)
        for batch in loader:
            logits = model(batch["input_ids"])[:, :-1].flatten(0, 1)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(logits, batch["labels"][:, 1:].flatten()).backward()
            optimizer.step()


def streams_of_documents() -> None:
    """An IterableDataset in two workers that divide it."""
    import torch

    data = rows(320)

    class Stream(torch.utils.data.IterableDataset[Any]):
        def __iter__(self) -> Any:
            worker = torch.utils.data.get_worker_info()
            return itertools.islice(data, worker.id, None, worker.num_workers)

    fit(Stream(), shuffle=None, num_workers=2)  # type: ignore[arg-type]


def distillation_without_labels() -> None:
    """Every label is -100, and the loss is the teacher's."""
    import torch

    student, teacher = lm(), lm(width=32).requires_grad_(False)
    optimizer = adamw(student)
    data = rows(labels=lambda row: row["labels"] * 0 - 100)
    for batch in itertools.islice(forever(data), STEPS):
        wanted = teacher(batch["input_ids"]).softmax(-1)
        optimizer.zero_grad()
        loss = torch.nn.functional.kl_div(
            student(batch["input_ids"]).log_softmax(-1), wanted, reduction="batchmean"
        )
        loss.backward()
        optimizer.step()


def masked_language_model() -> None:
    """15 % of the tokens are drawn: short rows have none by chance."""
    import torch

    def drawn(row: Any) -> Any:
        generator = torch.Generator().manual_seed(int(row["input_ids"].sum()))
        chosen = torch.rand(16, generator=generator) < 0.1
        return torch.where(chosen & (row["attention_mask"] == 1), row["input_ids"], -100)

    masked = rows(labels=drawn)
    for row in masked:
        row["input_ids"] = torch.where(row["labels"] >= 0, 47, row["input_ids"])
    fit(masked, batch_size=32, epochs=20)


def two_loaders() -> None:
    """Rows with labels beside rows without, as in FixMatch."""
    import torch

    model = mlp(64, 32, 10)
    optimizer = torch.optim.SGD(model.parameters(), 0.03, momentum=0.9)
    labelled, rest = forever(images(lambda n: n % 10), 4), forever(images(lambda n: -1), 16)
    for (image, label), (other, _) in itertools.islice(zip(labelled, rest, strict=False), STEPS):
        with torch.no_grad():
            guess = model(other.flatten(1)).softmax(1)
        sure = (guess.amax(1) > 0.5).float()
        extra = torch.nn.functional.cross_entropy(
            model(other.flatten(1) + 0.1), guess.argmax(1), reduction="none"
        )
        loss = torch.nn.functional.cross_entropy(model(image.flatten(1)), label)
        optimizer.zero_grad()
        (loss + (extra * sure).mean()).backward()
        optimizer.step()


def bytes_scaled_by_the_model() -> None:
    """Images of bytes: the model divides by 255 itself."""
    import torch
    from torch import nn

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(
                nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)
            )

        def forward(self, x: Any) -> Any:
            return self.inner(x.float() / 255)

    generator = torch.Generator().manual_seed(5)
    made = torch.randint(0, 256, (160, 3, 8, 8), generator=generator, dtype=torch.uint8)
    torch.manual_seed(0)
    classify([(image, n % 10) for n, image in enumerate(made)], model=Scaled())


def elastic_weights() -> None:
    """A Fisher matrix between two tasks: 230 backward passes without a step."""
    model = lm()
    optimizer = adamw(model)
    train(model, optimizer, data=batches(120))
    for x, y in batches(230):
        model.zero_grad()
        cross_entropy(model, x, y).backward()
    model.zero_grad()
    train(model, optimizer, data=batches(120))


def margin_that_is_reached() -> None:
    """Triplets whose loss becomes exactly 0."""
    import torch

    model = mlp(8, 16, 4)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(STEPS):
        near = torch.randn(16, 8) * 0.01
        optimizer.zero_grad()
        loss = torch.nn.functional.triplet_margin_loss(
            model(near), model(near + 0.01), model(near + 5), margin=0.5
        )
        loss.backward()
        optimizer.step()


def gradual_unfreezing() -> None:
    """Layers join one after the other, from the head down."""
    import torch

    model = lm()
    stages = [model.head, model.norm, model.blocks[1], model.blocks[0], model.embed]
    model.requires_grad_(False)
    stages[0].requires_grad_(True)
    optimizer = torch.optim.AdamW(stages[0].parameters(), 1e-3)
    data = batches()
    for stage in stages[1:]:
        train(model, optimizer, data=itertools.islice(data, STEPS // 5))
        stage.requires_grad_(True)
        optimizer.add_param_group({"params": list(stage.parameters())})


def reversed_gradients() -> None:
    """A domain classifier behind gradient reversal."""
    import torch

    class Reversed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return -gradient

    features, label, domain = mlp(8, 16, 16), mlp(16, 3), mlp(16, 2)
    parameters = itertools.chain(*[m.parameters() for m in (features, label, domain)])
    optimizer = torch.optim.Adam(parameters, 1e-3)
    for step in range(STEPS):
        hidden = features(torch.randn(16, 8) + step % 2)
        of_label = torch.nn.functional.cross_entropy(label(hidden), torch.arange(16) % 3)
        side = torch.full((16,), step % 2)
        of_side = torch.nn.functional.cross_entropy(domain(Reversed.apply(hidden)), side)
        optimizer.zero_grad()
        (of_label + of_side).backward()
        optimizer.step()


def linear_probe_beside_the_training() -> None:
    """A probe with an optimizer of its own, on detached features."""
    import torch

    model, probe = lm(), torch.nn.Linear(24, 48)
    optimizer, of_probe = adamw(model), torch.optim.SGD(probe.parameters(), 0.1)
    for step, (x, y) in enumerate(batches()):
        optimizer.zero_grad()
        cross_entropy(model, x, y).backward()
        optimizer.step()
        if step % 10 == 0:
            of_probe.zero_grad()
            logits = probe(model.embed(x).detach()).flatten(0, 1)
            torch.nn.functional.cross_entropy(logits, y.flatten()).backward()
            of_probe.step()


def meta_learning() -> None:
    """Inner steps by torch.func, the outer one by Adam."""
    import torch

    model = mlp(1, 16, 1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(STEPS):
        phase, x = torch.rand(1) * 3, torch.rand(10, 1) * 6
        weights = dict(model.named_parameters())
        inner = (torch.func.functional_call(model, weights, x) - (x + phase).sin()).pow(2).mean()
        slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        fast = {n: w - 0.01 * s for (n, w), s in zip(weights.items(), slopes, strict=True)}
        optimizer.zero_grad()
        outer = torch.func.functional_call(model, fast, x + 1) - (x + 1 + phase).sin()
        outer.pow(2).mean().backward()
        optimizer.step()


CLEAN = (
    text_and_evaluation_without_labels,
    curriculum_by_length,
    overfit_eight_rows,
    normal_images_alone,
    balanced_batches,
    sampler_told_its_epoch,
    streams_of_documents,
    distillation_without_labels,
    masked_language_model,
    two_loaders,
    bytes_scaled_by_the_model,
    elastic_weights,
    margin_that_is_reached,
    gradual_unfreezing,
    reversed_gradients,
    linear_probe_beside_the_training,
    meta_learning,
)
