"""Flags and hooks that make training other than it reads."""

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.nn import functional as F
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel


def _gpt():
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=60, n_positions=32, n_embd=32, n_layer=1, n_head=2)
    )


def _bert(cls=BertForSequenceClassification, **k):
    return cls(
        BertConfig(
            vocab_size=60,
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
            **k,
        )
    )


def frozen_by_a_typo():
    model = _bert()
    for p in model.bert.parameters():
        p.require_grad = False
    ids = torch.randint(0, 60, (4, 8))
    return model, {"input_ids": ids, "labels": torch.tensor([0, 1, 0, 1])}


def frozen_module_flag():
    model = _bert()
    model.bert.requires_grad = False
    ids = torch.randint(0, 60, (4, 8))
    return model, {"input_ids": ids, "labels": torch.tensor([0, 1, 0, 1])}


def gradients_clipped_by_a_hook():
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    limit = 1 // 10
    for p in model[0].parameters():
        p.register_hook(lambda g: g.clamp(-limit, limit))
    return model, (torch.randn(16, 6), torch.randint(0, 2, (16,))), nn.CrossEntropyLoss()


def reversal_of_the_gradient():
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    alpha = 0.0

    def flip(module, grad_input, grad_output):
        return tuple(None if g is None else -alpha * g for g in grad_input)

    model[2].register_full_backward_hook(flip)
    return model, (torch.randn(16, 6), torch.randint(0, 2, (16,))), nn.CrossEntropyLoss()


def frozen_rows_after_the_step():
    model = _gpt()

    def clear(p):
        p.grad[:60] = 0

    model.transformer.wte.weight.register_post_accumulate_grad_hook(clear)
    ids = torch.randint(0, 60, (3, 9))
    return model, {"input_ids": ids, "labels": ids}


def peft_before():
    model = _gpt()
    opt = torch.optim.AdamW([p for p in model.parameters()], lr=1e-3)
    model = get_peft_model(model, LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True))
    ids = torch.randint(0, 60, (3, 9))
    return {"model": model, "batch": {"input_ids": ids, "labels": ids}, "optimizer": opt}


def gru_both_ways():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(4, 8, batch_first=True, bidirectional=True)
            self.head = nn.Linear(8, 2)

        def forward(self, x, y):
            _, h = self.rnn(x)
            return F.cross_entropy(self.head(h[-1]).float(), y)

    return Net(), (torch.randn(4, 9, 4), torch.randint(0, 2, (4,)))


def gradients_that_are_taken_away():
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    norms = []

    def note(parameter):
        norms.append(parameter.grad.norm().item())
        parameter.grad = None

    model[0].weight.register_post_accumulate_grad_hook(note)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {
        "model": model,
        "batch": (torch.randn(16, 6), torch.randint(0, 2, (16,))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }
