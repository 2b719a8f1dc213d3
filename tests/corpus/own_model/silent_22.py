"""Trainings as people post them when they ask for help: each runs and does not learn as meant."""

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM


def _llama(**changes):
    sizes = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 64}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(**(sizes | changes)))


class _Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(16, 3)
        self.experts = [
            nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)) for _ in range(3)
        ]
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        weights = self.router(x).softmax(-1)
        outs = torch.stack([expert(x) for expert in self.experts], -1)
        return self.head((outs * weights.unsqueeze(1)).sum(-1))


def experts_of_a_list():
    return _Experts(), (torch.randn(16, 16), torch.randint(0, 4, (16,))), nn.CrossEntropyLoss()


def adapters_behind_the_optimizer():
    model = _llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model = get_peft_model(model, LoraConfig(target_modules=["q_proj", "v_proj"], r=4))
    ids = torch.randint(0, 96, (2, 12))
    return {"model": model, "batch": {"input_ids": ids, "labels": ids}, "optimizer": optimizer}


def prompts_longer_than_the_window():
    model = _llama()
    ids = torch.randint(0, 96, (2, 24))
    labels = ids.clone()
    labels[:, :30] = -100  # the prompt has 30 tokens
    return model, {"input_ids": ids, "labels": labels}


class _Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, ids):
        mask = (ids != 0).unsqueeze(-1).float()
        pooled = (self.emb(ids) * mask).sum(1) / mask.sum(1)
        return self.head(pooled)


def mean_of_an_empty_review():
    ids = torch.randint(1, 50, (6, 9))
    ids[4] = 0
    return _Pooled(), (ids, torch.randint(0, 2, (6,))), nn.CrossEntropyLoss()


def table_with_a_constant_column():
    x = torch.randn(32, 5)
    x[:, 3] = 7.0
    x = (x - x.mean(0)) / x.std(0)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
    return model, (x, torch.randn(32, 1)), nn.MSELoss()


class _Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(30, 8)
        self.dec = nn.Linear(4, 30)

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, -1)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(-1).mean()
        return F.mse_loss(self.dec(z), x) + kl


def pixels_of_255_in_a_vae():
    return _Vae(), torch.randint(0, 256, (8, 30)).float() * 40


def attention_of_a_padded_row():
    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(40, 16)
            self.score = nn.Linear(16, 1)
            self.head = nn.Linear(16, 2)

        def forward(self, ids):
            x = self.emb(ids)
            scores = self.score(x).squeeze(-1).masked_fill(ids == 0, float("-inf"))
            return self.head((scores.softmax(-1).unsqueeze(-1) * x).sum(1))

    ids = torch.randint(1, 40, (5, 7))
    ids[3] = 0
    return Attend(), (ids, torch.randint(0, 2, (5,))), nn.CrossEntropyLoss()


def rare_class_without_weight():
    weight = torch.tensor([0.0, 0.0, 1.0])
    batch = torch.randn(8, 6), torch.randint(0, 2, (8,))  # no sample of the third class
    return nn.Linear(6, 3), batch, nn.CrossEntropyLoss(weight=weight)


def features_without_gradients():
    class Tuned(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(12, 24), nn.ReLU())
            self.head = nn.Linear(24, 3)

        def forward(self, x):
            with torch.inference_mode(mode=False), torch.no_grad():
                features = self.body(x)
            return self.head(features)

    return Tuned(), (torch.randn(8, 12), torch.randint(0, 3, (8,))), nn.CrossEntropyLoss()


def only_the_head_is_optimized():
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))
    optimizer = torch.optim.Adam(model[2].parameters(), lr=1e-3)
    batch = torch.randn(8, 10), torch.randint(0, 3, (8,))
    return {"model": model, "batch": batch, "loss": nn.CrossEntropyLoss(), "optimizer": optimizer}


def probability_of_one_class():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1), nn.Softmax(dim=1))
    return model, (torch.randn(16, 8), torch.randint(0, 2, (16, 1)).float()), nn.BCELoss()


def rate_of_the_paper_for_sgd():
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0, momentum=0.9)
    batch = torch.randn(32, 20) * 5, torch.randn(32, 1)
    return {"model": model, "batch": batch, "loss": nn.MSELoss(), "optimizer": optimizer}


def dropout_of_everything():
    model = nn.Sequential(nn.Linear(8, 32), nn.Dropout(1.0), nn.ReLU(), nn.Linear(32, 2))
    return model, (torch.randn(8, 8), torch.randint(0, 2, (8,))), nn.CrossEntropyLoss()


def quantized_codes():
    class Codes(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Linear(12, 6)
            self.dec = nn.Linear(6, 12)

        def forward(self, x):
            codes = torch.round(self.enc(x) * 4) / 4
            return F.mse_loss(self.dec(codes), x)

    return Codes(), torch.randn(16, 12)


def scores_of_pairs_of_columns():
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
    return model, (torch.randn(24, 6), torch.randn(24)), nn.MSELoss()


def sigmoid_twice():
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1), nn.Sigmoid())
    return model, (torch.randn(24, 6), torch.randint(0, 2, (24, 1)).float()), nn.BCEWithLogitsLoss()


def log_of_the_probability():
    model = nn.Sequential(nn.Linear(6, 4), nn.Softmax(-1))

    def loss(model, batch):
        x, y = batch
        picked = model(x * 60).gather(1, y[:, None])
        return -torch.log(picked).mean()

    return model, (torch.randn(64, 6), torch.randint(0, 4, (64,))), loss


def one_group_at_zero():
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))
    optimizer = torch.optim.AdamW(
        [
            {"params": model[0].parameters(), "lr": 1e-3 * 0.0},
            {"params": model[2].parameters(), "lr": 1e-3},
        ]
    )
    batch = torch.randn(8, 10), torch.randint(0, 3, (8,))
    return {"model": model, "batch": batch, "loss": nn.CrossEntropyLoss(), "optimizer": optimizer}


def warm_up_that_never_ends():
    model = nn.Linear(10, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step // 500)
    batch = torch.randn(8, 10), torch.randint(0, 3, (8,))
    return {
        "model": model,
        "batch": batch,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": schedule,
    }


def frozen_by_the_pattern():
    model = _llama()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora" in name)
    ids = torch.randint(0, 96, (2, 12))
    return model, {"input_ids": ids, "labels": ids}
