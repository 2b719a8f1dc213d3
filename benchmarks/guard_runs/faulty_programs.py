"""Faulty runs as they are met in other people's programs, with code and first step."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

from .models import adamw, batches, cross_entropy, lm, train
from .trainers import hf, tiny_llama


def log_of_a_probability_of_0() -> None:
    """A loss written out by hand; the probability underflows in one batch."""
    model = lm()
    count = iter(range(1, 10**9))

    def loss(model: Any, x: Any, y: Any) -> Any:
        sharp = 1e4 if next(count) == 15 else 1.0
        p = (model(x) * sharp).softmax(-1).gather(-1, y[..., None])
        return -p.log().mean()

    train(model, adamw(model), loss=loss, data=batches(30))


def angle_between_equal_vectors() -> None:
    """The derivative of acos is infinite at 1; the loss is 0 there."""
    import torch

    torch.manual_seed(0)
    w = torch.nn.Parameter(torch.randn(3))
    optimizer = torch.optim.Adam([w], lr=0.01)
    for step in range(1, 21):
        target = w.detach().clone() if step == 6 else torch.randn(3)
        cosine = torch.nn.functional.cosine_similarity(w, target, dim=0)
        cosine = cosine + (1.0 - cosine.detach()) if step == 6 else cosine
        optimizer.zero_grad()
        torch.acos(cosine.clamp(-1, 1)).backward()
        optimizer.step()


def deviation_of_one_sample() -> None:
    """The last batch has one row, whose standard deviation is NaN."""
    import torch

    torch.manual_seed(0)
    rows = torch.utils.data.TensorDataset(torch.randn(41, 8))
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for (x,) in torch.utils.data.DataLoader(rows, batch_size=4):
        optimizer.zero_grad()
        (1.0 - model(x).std(0)).relu().sum().backward()
        optimizer.step()


def completions_all_filtered_out() -> None:
    """Nothing of one batch is left to learn from."""
    model = lm()
    count = iter(range(1, 10**9))

    def loss(model: Any, x: Any, y: Any) -> Any:
        import torch

        losses = torch.nn.functional.cross_entropy(
            model(x).flatten(0, 1), y.flatten(), reduction="none"
        )
        return losses[losses > (1e9 if next(count) == 9 else 0.0)].mean()

    train(model, adamw(model), loss=loss, data=batches(20))


def optimizer_before_lora() -> None:
    import torch
    from peft import LoraConfig, get_peft_model

    model = tiny_llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    for x, _ in batches(20):
        model(input_ids=x, labels=x).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def head_replaced_after_the_optimizer() -> None:
    import torch

    model = lm()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    model.head = torch.nn.Linear(24, 48, bias=False)
    train(model, optimizer, data=batches(20))


def rate_decays_at_every_batch() -> None:
    """A decay per epoch that is called per batch."""
    import torch

    model = lm()
    optimizer = adamw(model)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    train(model, optimizer, scheduler=schedule, data=batches(150))


def average_with_decay_1_copied_back() -> None:
    """The loop copies an average of the weights back that never changes."""
    import torch

    model = lm()
    average = copy.deepcopy(model)
    optimizer = adamw(model)

    def after(step: int) -> None:
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                slow.mul_(1.0).add_(fast, alpha=0.0)
                fast.copy_(slow)

    train(model, optimizer, data=batches(40), after=after)


def nan_replaced_in_the_gradients() -> None:
    """A hook turns NaN gradients of a model with a NaN weight into 0."""
    import torch

    model = lm()
    model.blocks[1].up.weight.data[0, 0] = math.nan
    for parameter in model.parameters():
        parameter.register_hook(torch.nan_to_num)
    train(model, adamw(model), data=batches(20))


def only_the_norms_in_bf16() -> None:
    import torch

    model = lm()
    for name, module in model.named_modules():
        if "norm" in name:
            module.to(torch.bfloat16)
    train(model, adamw(model, 1e-3), data=batches(20))


def gradients_underflow_in_fp16() -> None:
    import torch

    model = lm(torch.float16)
    train(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda m, x, y: cross_entropy(m, x, y) * 1e-9,
        data=batches(10),
    )


def warmup_of_a_billion_steps() -> None:
    import torch

    model = lm()
    optimizer = adamw(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 1e9))
    train(model, optimizer, scheduler=schedule, data=batches(30))


def image_tower_under_no_grad() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    image, text = nn.Linear(16, 8), nn.Linear(12, 8)
    optimizer = torch.optim.AdamW([*image.parameters(), *text.parameters()], lr=1e-3)
    for _ in range(120):
        with torch.no_grad():
            a = nn.functional.normalize(image(torch.randn(8, 16)), dim=-1)
        b = nn.functional.normalize(text(torch.randn(8, 12)), dim=-1)
        loss = nn.functional.cross_entropy(a @ b.T * 14.3, torch.arange(8))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def infinite_feature_in_a_stream() -> None:
    import torch

    class Stream(torch.utils.data.IterableDataset[dict[str, Any]]):
        def __iter__(self) -> Iterator[dict[str, Any]]:
            for number in range(80):
                features = torch.randn(5)
                if number == 50:
                    features[3] = math.inf
                yield {"audio": {"mel": features}, "label": number % 3}

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for batch in torch.utils.data.DataLoader(Stream(), batch_size=4):
        loss = torch.nn.functional.cross_entropy(model(batch["audio"]["mel"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def rate_that_diverges() -> None:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=3.0)
    for _ in range(200):
        x = torch.randn(32, 8)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x)[:, 0], x.sum(1)).backward()
        optimizer.step()


def loss_rebuilt_from_a_number() -> None:
    import torch

    model = lm()

    def loss(model: Any, x: Any, y: Any) -> Any:
        return torch.tensor(cross_entropy(model, x, y).item(), requires_grad=True)

    train(model, adamw(model), loss=loss, data=batches(20))


def accuracy_as_the_loss() -> None:
    model = lm()

    def loss(model: Any, x: Any, y: Any) -> Any:
        logits = model(x)
        return 1.0 - (logits.argmax(-1) == y).float().mean() + 0.0 * logits.sum()

    train(model, adamw(model), loss=loss, data=batches(20))


def lightning_optimizer_of_a_copy() -> None:
    import pytorch_lightning as pl
    import torch

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = lm()

        def training_step(self, batch: Any, index: int) -> Any:
            return cross_entropy(self.model, *batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(copy.deepcopy(self.model).parameters(), lr=1e-3)

    loader = torch.utils.data.DataLoader(list(batches(20)), batch_size=None)
    pl.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    ).fit(Module(), loader)  # fmt: skip


def trainer_weights_its_samples() -> None:
    """A weighted mean in compute_loss, with a batch whose weights are all 0."""
    import torch
    from transformers import PreTrainedModel

    model = tiny_llama()
    forward, count = model.forward, iter(range(1, 10**9))

    def weighted(*arguments: Any, **options: Any) -> Any:
        output = forward(*arguments, **options)
        weights = torch.zeros(4) if next(count) == 5 else torch.ones(4)
        output["loss"] = (output["loss"] * weights).sum() / weights.sum()
        return output

    assert isinstance(model, PreTrainedModel)
    model.forward = weighted
    hf(model, max_steps=12, logging_steps=1, remove_unused_columns=False)


def norms_zeroed_by_a_hook() -> None:
    import torch

    model = lm()
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.register_hook(torch.zeros_like)
    train(model, adamw(model, weight_decay=0.0), data=batches(30))


FAULTS = (
    ("GRD001@15", log_of_a_probability_of_0),
    ("GRD002@6", angle_between_equal_vectors),
    ("GRD001@11", deviation_of_one_sample),
    ("GRD009@9", completions_all_filtered_out),
    ("GRD003@3", optimizer_before_lora),
    ("GRD003@3", head_replaced_after_the_optimizer),
    ("GRD006", rate_decays_at_every_batch),
    ("GRD007@3", average_with_decay_1_copied_back),
    ("GRD001@1", nan_replaced_in_the_gradients),
    ("GRD005@3", only_the_norms_in_bf16),
    ("GRD004@3", gradients_underflow_in_fp16),
    ("GRD007@21", warmup_of_a_billion_steps),
    ("GRD016@100", image_tower_under_no_grad),
    ("GRD001@13", infinite_feature_in_a_stream),
    ("GRD001", rate_that_diverges),
    ("GRD003@3", loss_rebuilt_from_a_number),
    ("GRD004@3", accuracy_as_the_loss),
    ("GRD003@3", lightning_optimizer_of_a_copy),
    ("GRD001@5", trainer_weights_its_samples),
    ("GRD005@20", norms_zeroed_by_a_hook),
)
