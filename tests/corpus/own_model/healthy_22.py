"""Unusual trainings that work."""

import copy
import math
import tempfile

import pytorch_lightning as pl
import torch
from peft import LoraConfig, PromptTuningConfig, TaskType, get_peft_model
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)


def _llama(**changes):
    sizes = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 64}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(**(sizes | changes)))


def _next(model, ids):
    return F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def prompts_are_masked():
    ids = torch.randint(0, 96, (3, 16))
    labels = ids.clone()
    labels[:, :15] = -100  # one token of answer each
    return _llama(), {"input_ids": ids, "labels": labels}


def padded_on_the_left():
    ids = torch.randint(1, 96, (3, 12))
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    mask[2, :11] = 0
    labels = ids.masked_fill(mask == 0, -100)
    return _llama(), {"input_ids": ids, "attention_mask": mask, "labels": labels}


def adapters_on_a_recomputed_model():
    model = get_peft_model(_llama(), LoraConfig(target_modules=["q_proj", "v_proj"], r=4))
    model.gradient_checkpointing_enable({"use_reentrant": False})
    ids = torch.randint(0, 96, (2, 12))
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
    return {"model": model, "batch": {"input_ids": ids, "labels": ids}, "optimizer": optimizer}


def prompt_tuning():
    config = PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=6)
    model = get_peft_model(_llama(), config)
    ids = torch.randint(0, 96, (2, 12))
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


class _Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(16, 8)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(8))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        weight, chosen = self.router(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for at, expert in enumerate(self.experts):
            rows, slot = (chosen == at).nonzero(as_tuple=True)
            if len(rows):
                out = out.index_add(
                    0, rows, (expert(x[rows]) * weight[rows, slot, None]).to(x.dtype)
                )
        return self.head(out)


def experts_by_the_router():
    return _Mixture(), (torch.randn(64, 16), torch.randint(0, 4, (64,))), nn.CrossEntropyLoss()


class _Byol(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 8))
        self.guess = nn.Linear(8, 8)
        self.slow = copy.deepcopy(self.net).requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            for slow, fast in zip(self.slow.parameters(), self.net.parameters(), strict=True):
                slow.mul_(0.99).add_(fast, alpha=0.01)
            goal = F.normalize(self.slow(x + 0.1), dim=-1)
        return 2 - 2 * (F.normalize(self.guess(self.net(x)), dim=-1) * goal).sum(-1).mean()


def mean_teacher():
    return _Byol(), torch.randn(16, 12)


class _Straight(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(12, 6)
        self.dec = nn.Linear(6, 12)

    def forward(self, x):
        z = self.enc(x)
        return F.mse_loss(self.dec(z + (torch.round(z) - z).detach()), x)


def straight_through_codes():
    return _Straight(), torch.randn(16, 12)


def frozen_backbone_and_a_zero_head():
    body = nn.Sequential(nn.Linear(10, 32), nn.ReLU()).requires_grad_(False)
    head = nn.Linear(32, 3)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return (
        nn.Sequential(body, head),
        (torch.randn(8, 10), torch.randint(0, 3, (8,))),
        nn.CrossEntropyLoss(),
    )


def negative_reward():
    policy = nn.Linear(6, 4)

    def loss(policy, batch):
        state, action, advantage = batch
        logits = policy(state)
        return -(F.log_softmax(logits, -1).gather(1, action[:, None])[:, 0] * advantage).mean()

    batch = torch.randn(32, 6), torch.randint(0, 4, (32,)), torch.randn(32)
    return policy, batch, loss


def crps_of_an_ensemble():
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 7))

    def loss(model, batch):
        x, y = batch
        members = model(x)
        spread = (members[:, :, None] - members[:, None, :]).abs().mean((1, 2))
        return ((members - y[:, None]).abs().mean(1) - 0.5 * spread).mean()

    return model, (torch.randn(16, 5), torch.randn(16)), loss


def ranking_of_all_pairs():
    model = nn.Linear(7, 1)

    def loss(model, batch):
        x, y = batch
        score = model(x)
        wins = (y[:, None] > y[None, :]).float()
        return F.binary_cross_entropy_with_logits(score - score.T, wins)

    return model, (torch.randn(10, 7), torch.randn(10)), loss


class _TimeFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 12)
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        return self.head(self.rnn(x)[0][-1])


def time_comes_first():
    return _TimeFirst(), (torch.randn(20, 4, 6), torch.randint(0, 2, (4,))), nn.CrossEntropyLoss()


def clip_of_pictures_and_texts():
    class Clip(nn.Module):
        def __init__(self):
            super().__init__()
            self.image, self.text = nn.Linear(20, 8), nn.Linear(14, 8)
            self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

        def forward(self, image, text):
            a, b = F.normalize(self.image(image), dim=-1), F.normalize(self.text(text), dim=-1)
            logits = self.scale.exp() * a @ b.T
            goal = torch.arange(len(logits))
            return (F.cross_entropy(logits, goal) + F.cross_entropy(logits.T, goal)) / 2

    return Clip(), (torch.randn(8, 20), torch.randn(8, 14))


def packed_documents():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(40, 32)
            self.qkv = nn.Linear(32, 96)
            self.head = nn.Linear(32, 40)

        def forward(self, ids, document):
            q, k, v = self.qkv(self.emb(ids)).chunk(3, -1)
            same = (document[:, :, None] == document[:, None, :]).tril()
            return self.head(F.scaled_dot_product_attention(q, k, v, attn_mask=same))

    ids = torch.randint(0, 40, (2, 12))
    document = torch.tensor([[0] * 5 + [1] * 7, [0] * 9 + [1] * 3])

    def loss(model, batch):
        logits = model(*batch)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch[0][:, 1:].flatten())

    return Model(), (ids, document), loss


class _Universal(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(40, 32)
        self.block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, 40, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        x = self.emb(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        for _ in range(3):
            x = checkpoint(lambda x: self.block(x, mask, is_causal=True), x, use_reentrant=False)
        return self.head(x)


def one_layer_used_three_times():
    return _Universal(), torch.randint(0, 40, (4, 10)), _next


def sparse_embedding():
    model = nn.Sequential(nn.EmbeddingBag(1000, 8, sparse=True), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randint(0, 1000, (8, 5)), torch.randint(0, 2, (8,))
    return {"model": model, "batch": batch, "loss": nn.CrossEntropyLoss(), "optimizer": optimizer}


def label_smoothing_over_padding():
    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=60,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=1,
            num_heads=4,
            decoder_start_token_id=0,
        )
    )
    labels = torch.randint(2, 60, (3, 8))
    labels[0, 4:] = labels[2, 1:] = -100
    ids = torch.randint(2, 60, (3, 10))

    def loss(model, batch):
        logits = model(**batch).logits
        return F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), label_smoothing=0.1)

    return model, {"input_ids": ids, "labels": labels}, loss


class _Sum(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = F.cross_entropy(outputs.logits, labels, reduction="sum")
        loss = loss / (num_items_in_batch or len(labels))
        return (loss, outputs) if return_outputs else loss


def trainer_with_its_own_sum():
    config = BertConfig(
        vocab_size=120,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
    )
    rows = [{"input_ids": [4, 5, 6, at], "labels": at % 2} for at in range(16)]
    arguments = TrainingArguments(output_dir=tempfile.mkdtemp(), report_to=[], use_cpu=True)
    return _Sum(model=BertForSequenceClassification(config), args=arguments, train_dataset=rows)


class _Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(9, 16), nn.GELU(), nn.Linear(16, 1))

    def training_step(self, batch, batch_idx, dataloader_idx=0):
        x, y = batch
        loss = F.huber_loss(self.net(x).squeeze(-1), y)
        self.log_dict({"loss": loss}, prog_bar=True)
        return {"loss": loss, "count": len(x)}

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=500)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def train_dataloader(self):
        rows = [(torch.randn(9), torch.randn(())) for _ in range(32)]
        return DataLoader(rows, batch_size=8, shuffle=True, drop_last=True)


def lightning_with_one_cycle():
    return _Lit()


def pictures_in_place():
    """What the loader makes anew, the step may change."""

    def collate(rows):
        return torch.stack([r[0] for r in rows]), torch.tensor([r[1] for r in rows])

    def loss(model, batch):
        x, y = batch
        x.sub_(0.5).div_(0.25)
        return F.cross_entropy(model(x), y)

    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)
    )
    rows = [(torch.rand(3, 12, 12), at % 2) for at in range(16)]
    return model, DataLoader(rows, batch_size=8, collate_fn=collate), loss


def spectral_discriminator():
    model = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(10, 16)),
        nn.LeakyReLU(0.2),
        nn.utils.parametrizations.spectral_norm(nn.Linear(16, 1)),
    )

    def loss(model, batch):
        real, fake = batch
        return F.relu(1 - model(real)).mean() + F.relu(1 + model(fake)).mean()

    return model, (torch.randn(16, 10), torch.randn(16, 10)), loss


def penalized_critic():
    critic = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1, bias=False))

    def loss(critic, batch):
        real, fake = batch
        mixed = (0.3 * real + 0.7 * fake).requires_grad_()
        slope = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
        return (
            critic(fake).mean() - critic(real).mean() + 10 * ((slope.norm(dim=1) - 1) ** 2).mean()
        )

    return critic, (torch.randn(12, 8), torch.randn(12, 8)), loss


def half_of_the_layers_are_dropped():
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
            self.head = nn.Linear(16, 3)

        def forward(self, x):
            for layer in self.layers:
                keep = torch.bernoulli(torch.full((len(x), 1), 0.5))
                x = x + keep * torch.tanh(layer(x))
            return self.head(x)

    return Deep(), (torch.randn(64, 16), torch.randint(0, 3, (64,))), nn.CrossEntropyLoss()


def gpt_in_two_rates():
    config = GPT2Config(vocab_size=100, n_positions=32, n_embd=32, n_layer=2, n_head=4)
    model = GPT2LMHeadModel(config)
    plain = [p for p in model.parameters() if p.ndim < 2]
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
        lr=6e-4,
        betas=(0.9, 0.95),
        fused=True,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 2000))
    ids = torch.randint(0, 100, (2, 16))
    return {
        "model": model,
        "batch": {"input_ids": ids, "labels": ids},
        "optimizer": optimizer,
        "scheduler": schedule,
        "max_grad_norm": 1.0,
    }


def regression_of_large_numbers():
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    return model, (torch.randn(32, 4), 250_000 + 80_000 * torch.randn(32, 1)), nn.L1Loss()


def distilled_from_a_larger_one():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.teacher = nn.Linear(10, 5).requires_grad_(False).eval()
            self.student = nn.Linear(10, 5)

        def forward(self, x):
            with torch.no_grad():
                goal = F.log_softmax(self.teacher(x) / 2, -1)
            return 4 * F.kl_div(
                F.log_softmax(self.student(x) / 2, -1), goal, log_target=True, reduction="batchmean"
            )

    return Pair(), torch.randn(16, 10)
