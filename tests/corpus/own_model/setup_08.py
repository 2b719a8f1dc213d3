"""Optimizers, schedules, weights and layers that cannot be built or stepped."""

from __future__ import annotations

import torch
from blocks import CLASSES, MLP, WIDTH, four_classes, points, small_mlp
from parts_08 import saved, trained
from torch import nn
from torch.optim import SGD, AdamW, lr_scheduler


def model_instead_of_its_parameters():
    model = MLP()
    return trained(model, AdamW(model, lr=1e-3))


def method_instead_of_its_result():
    model = MLP()
    return trained(model, AdamW(model.parameters, lr=1e-3))


def head_in_both_groups():
    model = MLP()
    groups = [{"params": model.parameters()}, {"params": model.second.parameters(), "lr": 1e-2}]
    return trained(model, AdamW(groups, lr=1e-3))


def one_tensor_for_the_optimizer():
    model = MLP()
    return trained(model, SGD(model.first.weight, lr=0.1))


def rate_as_it_stands_in_yaml():
    model, config = MLP(), {"lr": "1e-4"}
    return trained(model, AdamW(model.parameters(), lr=config["lr"]))


def rate_below_zero():
    model = MLP()
    return trained(model, AdamW(model.parameters(), lr=-1e-3))


def state_of_another_width():
    model, older = MLP(), small_mlp(inputs=4)
    before = AdamW(older.parameters(), lr=1e-3)
    older(torch.randn(2, 4)).sum().backward()
    before.step()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    optimizer.load_state_dict(torch.load(saved(before.state_dict())))
    return trained(model, optimizer)


def momentum_of_another_optimizer():
    model = MLP()
    before = AdamW(model.parameters(), lr=1e-3)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.load_state_dict(before.state_dict())
    return trained(model, optimizer)


def fused_and_foreach():
    model = MLP()
    return trained(model, AdamW(model.parameters(), lr=1e-3, fused=True, foreach=True))


def rate_in_a_tensor():
    model = MLP()
    rate = torch.tensor(1e-3)
    return trained(model, AdamW(model.parameters(), lr=rate, foreach=True))


def dense_gradients_for_a_sparse_optimizer():
    model = MLP()
    return trained(model, torch.optim.SparseAdam(list(model.parameters()), lr=1e-3))


def cycle_that_is_too_short():
    model = MLP()
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=2)
    return trained(model, optimizer, scheduler=schedule)


def cycle_of_no_steps():
    model = MLP()
    optimizer = SGD(model.parameters(), lr=0.1)
    steps = len(points()[0]) // 16
    schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, epochs=3, steps_per_epoch=steps)
    return trained(model, optimizer, scheduler=schedule)


def schedule_of_a_resumed_run():
    model = MLP()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    schedule = lr_scheduler.CosineAnnealingLR(optimizer, T_max=100, last_epoch=10)
    return trained(model, optimizer, scheduler=schedule)


def schedule_of_the_model():
    model = MLP()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    return trained(model, optimizer, scheduler=lr_scheduler.StepLR(model, 10))


def one_factor_for_two_groups():
    model = MLP()
    optimizer = SGD([{"params": m.parameters()} for m in (model.first, model.second)], lr=0.1)
    schedule = lr_scheduler.LambdaLR(optimizer, [lambda step: 0.9**step])
    return trained(model, optimizer, scheduler=schedule)


def momentum_in_a_cycle():
    model = MLP()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    schedule = lr_scheduler.CyclicLR(optimizer, 1e-3, 1e-1)
    return trained(model, optimizer, scheduler=schedule)


def head_of_other_classes():
    model = MLP()
    model.load_state_dict(torch.load(saved(MLP(outputs=1000).state_dict())), strict=False)
    return trained(model)


def weights_inside_a_checkpoint():
    model = MLP()
    checkpoint = {"epoch": 3, "model": model.state_dict(), "optimizer": {}}
    model.load_state_dict(torch.load(saved(checkpoint)))
    return trained(model)


def layers_were_renamed():
    model = small_mlp()
    state = {f"encoder.{key}": value for key, value in model.state_dict().items()}
    model.load_state_dict(torch.load(saved(state)))
    return model, four_classes(), nn.CrossEntropyLoss()


def whole_model_in_a_file():
    model = torch.load(saved(MLP()))
    return trained(model)


def model_for_a_state_dict():
    model = MLP()
    model.load_state_dict(torch.load(saved(MLP()), weights_only=False))
    return trained(model)


def dropout_in_percent():
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.Dropout(10), nn.Linear(WIDTH, CLASSES))
    return model, points(), nn.CrossEntropyLoss()


def same_padding_with_a_stride():
    model = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding="same"), nn.Flatten())
    return model, (torch.rand(2, 3, 8, 8), torch.rand(2, 64)), nn.MSELoss()


def padding_beyond_the_table():
    table = nn.Embedding(31, CLASSES, padding_idx=50)
    ids = torch.randint(31, (4, 8))
    return nn.Sequential(table, nn.Flatten(0, 1)), (ids, ids.flatten()), nn.CrossEntropyLoss()


def layer_that_is_not_created():
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU, nn.Linear(WIDTH, CLASSES))
    return model, points(), nn.CrossEntropyLoss()


def lazy_layer_and_an_optimizer():
    model = nn.Sequential(nn.LazyLinear(WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    optimizer = AdamW(model.parameters(), lr=1e-3)
    total = sum(parameter.numel() for parameter in model.parameters())
    return trained(model, optimizer, max_grad_norm=float(total))


def file_beside_the_script():
    return trained(torch.load("weights/best.pt"))


def spectral_norm_of_a_missing_weight():
    model = nn.utils.parametrizations.spectral_norm(MLP())
    return trained(model)


def argument_of_another_release():
    layer = nn.TransformerEncoderLayer(WIDTH, 4, hidden_size=64)
    return trained(nn.TransformerEncoder(layer, 2))
