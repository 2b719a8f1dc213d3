"""Faults that people reported, rebuilt in our own words; the address is in the text of each.

The label is what the guard must raise; it was written before the first run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .models import STEPS, adamw, batches, cross_entropy, lm, train

EPOCHS = 6


def rows(count: int = 160, **change: Callable[[Any], Any]) -> list[dict[str, Any]]:
    """Prompts that are not trained, answers that are, and padding."""
    import torch

    generator = torch.Generator().manual_seed(3)
    made = []
    for number in range(count):
        ids = torch.randint(1, 48, (16,), generator=generator)
        mask = torch.ones_like(ids)
        mask[12 + number % 4 :] = 0
        labels = torch.where(mask == 1, ids, -100)
        labels[:4] = -100
        row = {"input_ids": ids, "labels": labels, "attention_mask": mask}
        made.append({**row, **{name: each(row) for name, each in change.items()}})
    return made


def fit(data: list[dict[str, Any]], epochs: int = EPOCHS, **loader: Any) -> None:
    """A loop over a DataLoader with the shifted loss of a language model."""
    import torch

    model = lm()
    optimizer = adamw(model)
    batches = torch.utils.data.DataLoader(data, **{"batch_size": 8, "shuffle": True, **loader})
    for _ in range(epochs):
        for batch in batches:
            logits = model(batch["input_ids"])[:, :-1].flatten(0, 1)
            loss = torch.nn.functional.cross_entropy(logits, batch["labels"][:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def images(order: Callable[[int], int], blank: bool = False) -> list[tuple[Any, int]]:
    import torch

    generator = torch.Generator().manual_seed(4)
    made = [(torch.randn(1, 8, 8, generator=generator), order(n)) for n in range(160)]
    return [(image * 0 if blank else image, label) for image, label in made]


def classify(data: list[Any], *, model: Any = None, epochs: int = EPOCHS, **loader: Any) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = model or nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(epochs):
        options = {"batch_size": 8, "shuffle": True, **loader}
        for image, label in torch.utils.data.DataLoader(data, **options):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(image), label).backward()
            optimizer.step()
    return model


def base_trainer_without_zero_grad() -> None:
    """https://github.com/yastrebksv/TennisCourtDetector/issues/7"""
    model = lm()
    optimizer = adamw(model)
    for x, y in batches():
        cross_entropy(model, x, y).backward()
        optimizer.step()


def zero_grad_behind_backward() -> None:
    """https://github.com/cloneofsimo/lora/issues/263, as where no accumulation follows."""
    model = lm()
    optimizer = adamw(model)
    for x, y in batches():
        cross_entropy(model, x, y).backward()
        optimizer.zero_grad()
        optimizer.step()


def discriminator_never_cleared() -> None:
    """https://github.com/Hsintien-Ng/idinvert_pytorch-reproduced/issues/1"""
    import torch
    from torch import nn

    torch.manual_seed(0)
    g, d = nn.Linear(4, 2), nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 1))
    of_g, of_d = torch.optim.Adam(g.parameters(), 1e-3), torch.optim.Adam(d.parameters(), 1e-3)
    for _ in range(STEPS):
        fake, real = g(torch.randn(16, 4)), torch.randn(16, 2) + 2
        (d(fake.detach()).relu() + (1 - d(real)).relu()).mean().backward()
        of_d.step()
        of_g.zero_grad()
        (-d(fake).mean()).backward()
        of_g.step()


def decay_of_epochs_per_batch() -> None:
    """https://github.com/ivadomed/ivadomed/pull/55"""
    import torch

    model = lm()
    optimizer = adamw(model)
    train(model, optimizer, scheduler=torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9))


def schedule_stepped_by_every_process() -> None:
    """https://github.com/huggingface/accelerate/issues/2926, four processes"""
    import torch

    model = lm()
    optimizer = adamw(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: max(0.0, 1 - n / STEPS))

    class Four:
        def step(self) -> None:
            for _ in range(4):
                schedule.step()

    train(model, optimizer, scheduler=Four())


def decay_goes_on_below_zero() -> None:
    """A linear decay that is stepped behind its last step."""
    import torch

    model = lm()
    optimizer = adamw(model)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 - n / (0.6 * STEPS))
    train(model, optimizer, scheduler=decay)


def layers_replaced_behind_the_optimizer() -> None:
    """https://github.com/microsoft/nni/issues/4521"""
    import copy

    model = lm()
    optimizer = adamw(model)
    model.blocks = copy.deepcopy(model.blocks)
    model.embed, model.head = copy.deepcopy(model.embed), copy.deepcopy(model.head)
    model.norm = copy.deepcopy(model.norm)
    train(model, optimizer, data=_cleared(model))


def _cleared(model: Any) -> Any:
    for x, y in batches():
        model.zero_grad()
        yield x, y


def module_in_no_optimizer() -> None:
    """https://github.com/Pbihao/HDMNet/issues/21"""
    import torch

    model = lm()
    optimizer = torch.optim.AdamW([*model.embed.parameters(), *model.head.parameters()], 1e-3)
    train(model, optimizer, data=_cleared(model))


def prompts_fill_the_length() -> None:
    """https://github.com/huggingface/trl/issues/6668"""
    fit(rows(labels=lambda row: row["labels"] * 0 - 100))


def half_of_the_prompts_fill_it() -> None:
    """https://github.com/huggingface/trl/pull/6320"""
    made = rows()
    for row in made[::2]:
        row["labels"] = row["labels"] * 0 - 100
    fit(made)


def padding_copied_to_the_labels() -> None:
    """https://github.com/huggingface/trl/pull/1625"""
    fit(rows(labels=lambda row: row["input_ids"].clone()))


def prompt_trained_answer_masked() -> None:
    """https://github.com/huggingface/trl/issues/3279, the mask the wrong way round"""

    def turned(row: Any) -> Any:
        labels = row["input_ids"].clone()
        labels[6:] = -100
        return labels

    fit(rows(labels=turned))


def sampler_without_its_epoch() -> None:
    """https://github.com/pytorch/pytorch/issues/31771"""
    from torch.utils.data.distributed import DistributedSampler

    data = rows()
    fit(data, shuffle=False, sampler=DistributedSampler(data, 2, 0))


def sorted_by_class() -> None:
    """https://github.com/happynear/NormFace/issues/4"""
    classify(images(lambda number: number // 16), shuffle=False)


def images_that_are_black() -> None:
    """https://github.com/prs-eth/Marigold/issues/111, a reader that returns zeros"""
    classify(images(lambda number: number % 10, blank=True))


def same_row_every_time() -> None:
    """An index that the dataset disregards: https://github.com/pytorch/pytorch/issues/5059"""
    fit(rows()[:1] * 160)


def one_token_everywhere() -> None:
    """A tokenizer whose vocabulary does not fit: every piece is the unknown token."""
    fit(rows(input_ids=lambda row: row["input_ids"] * 0 + 3))


def evaluation_mode_is_left_on() -> None:
    """https://github.com/joeynmt/joeynmt/issues/184"""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(48, 24), nn.Dropout(0.1), nn.Linear(24, 48))

    def after(step: int) -> None:
        if step == 50:
            model.eval()

    train(model, adamw(model), after=after)


def evaluation_mode_with_batch_norm() -> None:
    """https://github.com/wkentaro/pytorch-fcn/pull/56"""
    from torch import nn

    layers = nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)
    model = nn.Sequential(*layers)
    model.eval()
    classify(images(lambda number: number % 10), model=model, epochs=15)


def logarithm_of_a_focal_probability() -> None:
    """https://github.com/gnn-tracking/gnn_tracking/issues/104"""
    import torch

    model = lm()
    count = iter(range(10**9))

    def loss(model: Any, x: Any, y: Any) -> Any:
        p = (model(x) * (1e3 if next(count) == 40 else 1.0)).softmax(-1)
        target = torch.nn.functional.one_hot(y, 48)
        positive = -((1 - p) ** 2) * target * p.log()
        return (positive - p**2 * (1 - target) * (1 - p).log() * 0.1).sum(-1).mean()

    train(model, adamw(model), loss=loss)


def missing_depth_is_nan() -> None:
    """https://github.com/prs-eth/Marigold/issues/111"""
    import torch

    data = images(lambda number: number % 10)
    data[77] = torch.full((1, 8, 8), float("nan")), 7
    classify(data)


def root_of_a_gradient_penalty() -> None:
    """https://github.com/irfanICMLL/structure_knowledge_distillation/issues/21"""
    import torch
    from torch import nn

    torch.manual_seed(0)
    d = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(d.parameters(), 1e-3)
    for step in range(STEPS):
        x = (torch.randn(16, 2) * (0 if step == 30 else 1)).requires_grad_()
        score = (d(x) * (x.abs() > 0).float().amax(1, keepdim=True)).sum()
        slope = torch.autograd.grad(score, x, create_graph=True)[0]
        optimizer.zero_grad()
        ((slope.pow(2).sum(1).sqrt() - 1) ** 2 + d(x).mean()).mean().backward()
        optimizer.step()


def clipped_to_nothing() -> None:
    """max_norm=0, meant as "off"."""
    import torch

    model = lm()
    optimizer = adamw(model)
    for x, y in batches():
        cross_entropy(model, x, y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.0)
        optimizer.step()
        optimizer.zero_grad()


def step_in_the_loop_and_in_a_callback() -> None:
    """https://github.com/aimagelab/meshed-memory-transformer/issues/71, of the optimizer"""
    model = lm()
    optimizer = adamw(model)
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(model, x, y).backward()
        optimizer.step()
        optimizer.step()


def teacher_in_place_of_the_student() -> None:
    """https://github.com/CuriousAI/mean-teacher/issues/28: the average is what is trained"""
    import copy

    model = lm()
    teacher = copy.deepcopy(model)
    train(model, adamw(teacher), data=_cleared(model))


def rate_of_another_scale() -> None:
    """A rate that is multiplied by 4000 in the middle."""
    import torch

    model = lm()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    jump = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1.0 if n < 200 else 4000.0)
    train(model, optimizer, scheduler=jump)


def scale_parameter_under_no_grad() -> None:
    """A loss from detached features: https://github.com/haowang1992/DSN/issues/1"""
    import torch

    model = lm()

    def loss(model: Any, x: Any, y: Any) -> Any:
        with torch.no_grad():
            hidden = model.embed(x)
        for block in model.blocks:
            hidden = block(hidden)
        logits = model.head(model.norm(hidden).detach())
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())

    train(model, adamw(model), loss=loss)


def statistics_of_an_overflow() -> None:
    """A running variance that one batch makes infinite."""
    import torch
    from torch import nn

    data = images(lambda number: number % 10)
    data[33] = data[33][0] * 1e30, 3
    layers = nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)
    torch.manual_seed(0)
    classify(data, model=nn.Sequential(*layers), epochs=15)


def bf16_norms_and_a_small_rate() -> None:
    """Pure bf16 at a small rate: updates are rounded away."""
    import torch

    model = lm(torch.bfloat16)
    train(model, adamw(model, 3e-5))


FAULTS = (
    ("GRD012", base_trainer_without_zero_grad),
    ("GRD003", zero_grad_behind_backward),
    ("GRD012", discriminator_never_cleared),
    ("GRD006", decay_of_epochs_per_batch),
    ("GRD006", schedule_stepped_by_every_process),
    ("GRD006", decay_goes_on_below_zero),
    ("GRD003", layers_replaced_behind_the_optimizer),
    ("GRD003", module_in_no_optimizer),
    ("DAT001", prompts_fill_the_length),
    ("DAT001", half_of_the_prompts_fill_it),
    ("DAT005", padding_copied_to_the_labels),
    ("DAT013", prompt_trained_answer_masked),
    ("DAT019", sampler_without_its_epoch),
    ("DAT009", sorted_by_class),
    ("DAT009", images_that_are_black),
    ("DAT009", same_row_every_time),
    ("DAT009", one_token_everywhere),
    ("GRD025", evaluation_mode_is_left_on),
    ("GRD025", evaluation_mode_with_batch_norm),
    ("GRD001", logarithm_of_a_focal_probability),
    ("GRD001", missing_depth_is_nan),
    ("GRD002", root_of_a_gradient_penalty),
    ("GRD004", clipped_to_nothing),
    ("GRD012", step_in_the_loop_and_in_a_callback),
    ("GRD003", teacher_in_place_of_the_student),
    ("GRD006", rate_of_another_scale),
    ("GRD016", scale_parameter_under_no_grad),
    ("GRD024", statistics_of_an_overflow),
    ("GRD005", bf16_norms_and_a_small_rate),
)
