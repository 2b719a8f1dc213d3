"""Trainings that are as they should be."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F


class WordModel(nn.Module):
    def __init__(self, words=60, width=32):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, 2, dropout=0.2, batch_first=True)
        self.decoder = nn.Linear(width, words)
        self.decoder.weight = self.embed.weight
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, ids):
        hidden, _ = self.lstm(self.embed(ids[:, :-1]))
        return F.cross_entropy(self.decoder(hidden).flatten(0, 1), ids[:, 1:].flatten())


def word_model_with_sgd():
    model = WordModel()
    return {
        "model": model,
        "batch": torch.randint(0, 60, (8, 21)),
        "optimizer": torch.optim.SGD(model.parameters(), lr=5.0),
        "max_grad_norm": 0.25,
    }


def wasserstein_critic():
    critic = nn.Sequential(nn.Linear(10, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1, bias=False))
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 10)).requires_grad_(False)

    def loss(critic, real):
        with torch.no_grad():
            for parameter in critic.parameters():
                parameter.clamp_(-0.1, 0.1)
            fake = generator.to(real.device)(torch.randn(len(real), 4, device=real.device))
        return critic(fake).mean() - critic(real).mean()

    return {
        "model": critic,
        "batch": torch.randn(32, 10) + 2,
        "loss": loss,
        "optimizer": torch.optim.RMSprop(critic.parameters(), lr=5e-5),
    }


class OwnLatent(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = nn.Sequential(
            nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16)
        )
        self.predictor = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    @torch.no_grad()
    def follow(self, momentum=0.99):
        for slow, fast in zip(self.target.parameters(), self.online.parameters(), strict=True):
            slow.lerp_(fast, 1 - momentum)

    def forward(self, first, second):
        self.follow()
        loss = 0
        for left, right in ((first, second), (second, first)):
            with torch.no_grad():
                wanted = self.target(right)
            loss = loss - F.cosine_similarity(self.predictor(self.online(left)), wanted).mean()
        return loss


def own_latent():
    x = torch.randn(16, 12)
    return OwnLatent(), (x + 0.1 * torch.randn(16, 12), x + 0.1 * torch.randn(16, 12))


class DiscreteCodes(nn.Module):
    def __init__(self, codes=8, width=6):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4 * width))
        self.codes = nn.Parameter(torch.randn(codes, width))
        self.decoder = nn.Sequential(nn.Linear(4 * width, 32), nn.ReLU(), nn.Linear(32, 20))

    def forward(self, x):
        z = self.encoder(x).float().view(len(x), 4, -1)
        with torch.no_grad():
            nearest = (z.unsqueeze(2) - self.codes).square().sum(-1).argmin(-1)
        quantized = self.codes[nearest]
        loss = F.mse_loss(quantized, z.detach()) + 0.25 * F.mse_loss(z, quantized.detach())
        straight = z + (quantized - z).detach()
        return loss + F.mse_loss(self.decoder(straight.flatten(1)), x)


def discrete_codes():
    return DiscreteCodes(), torch.randn(16, 20)


def hinge_critic():
    norm = nn.utils.parametrizations.spectral_norm
    critic = nn.Sequential(
        norm(nn.Conv2d(3, 8, 3, 2, 1)),
        nn.LeakyReLU(0.2),
        norm(nn.Conv2d(8, 16, 3, 2, 1)),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        norm(nn.Linear(64, 1)),
    )

    def loss(critic, batch):
        real, fake = batch
        return F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake)).mean()

    return critic, (torch.rand(6, 3, 8, 8), torch.randn(6, 3, 8, 8)), loss


class SpikeCounts(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 8))

    def forward(self, x, counts):
        rate = F.relu(self.net(x).float())
        large = rate > 0.1
        small = (rate / 0.1 - 1) + math.log(0.1)
        log_rate = torch.where(large, torch.log(torch.where(large, rate, 1.0)), small)
        return (rate - counts * log_rate).mean() + F.mse_loss(rate, counts)


def spike_counts():
    return SpikeCounts(), (torch.randn(16, 6), torch.poisson(torch.full((16, 8), 1.5)))


class StepDecoder(nn.Module):
    def __init__(self, width=24, symbols=12):
        super().__init__()
        self.symbols = symbols
        self.embed = nn.Embedding(symbols, width)
        self.cell = nn.GRUCell(width, width)
        self.out = nn.Linear(width, symbols)

    def forward(self, target):
        samples, length = target.shape
        logits = torch.zeros(samples, length - 1, self.symbols, device=target.device)
        hidden = torch.zeros(samples, self.cell.hidden_size, device=target.device)
        token = target[:, 0]
        for step in range(length - 1):
            hidden = self.cell(self.embed(token), hidden)
            logits[:, step] = self.out(hidden)
            guess = logits[:, step].argmax(dim=-1).detach()
            token = target[:, step + 1] if step % 2 else guess
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())


def step_decoder():
    return StepDecoder(), torch.randint(0, 12, (6, 9))


class Binarize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() <= 1)


class BinaryLinear(nn.Linear):
    def forward(self, x):
        scale = self.weight.abs().mean(dim=1, keepdim=True)
        return F.linear(x, Binarize.apply(self.weight) * scale, self.bias)


def binary_weights():
    model = nn.Sequential(
        nn.Linear(10, 32),
        nn.BatchNorm1d(32),
        nn.Hardtanh(),
        BinaryLinear(32, 32),
        nn.Hardtanh(),
        nn.Linear(32, 4),
    )
    return model, (torch.randn(16, 10), torch.randint(0, 4, (16,))), nn.CrossEntropyLoss()


def lightning_with_warm_up():
    import pytorch_lightning as pl

    class Classifier(pl.LightningModule):
        def __init__(self, width=24, lr=3e-3):
            super().__init__()
            self.save_hyperparameters()
            self.backbone = nn.Sequential(nn.Linear(8, width), nn.ReLU()).requires_grad_(False)
            self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 3))
            nn.init.zeros_(self.head[1].weight)

        def training_step(self, batch, batch_idx):
            x, y = batch
            with torch.no_grad():
                features = self.backbone(x)
            loss = F.cross_entropy(self.head(features), y)
            self.log("loss", loss, prog_bar=True)
            return {"loss": loss}

        def configure_optimizers(self):
            trainable = [p for p in self.parameters() if p.requires_grad]
            optimizer = torch.optim.AdamW(trainable, lr=self.hparams.lr)
            warm_up = torch.optim.lr_scheduler.LinearLR(
                optimizer, start_factor=0.01, total_iters=10
            )
            return [optimizer], [{"scheduler": warm_up, "interval": "step"}]

        def train_dataloader(self):
            data = torch.utils.data.TensorDataset(torch.randn(32, 8), torch.randint(0, 3, (32,)))
            return torch.utils.data.DataLoader(data, batch_size=16, shuffle=True, drop_last=True)

    return Classifier()


def trainer_with_a_frozen_base():
    import tempfile

    from transformers import (
        DistilBertConfig,
        DistilBertForSequenceClassification,
        Trainer,
        TrainingArguments,
    )

    config = DistilBertConfig(
        vocab_size=60, dim=32, hidden_dim=64, n_layers=2, n_heads=4, num_labels=3
    )
    model = DistilBertForSequenceClassification(config)
    model.distilbert.requires_grad_(False)
    data = [
        {
            "input_ids": torch.randint(0, 60, (10,)),
            "attention_mask": torch.ones(10, dtype=torch.long),
            "labels": index % 3,
        }
        for index in range(24)
    ]
    arguments = TrainingArguments(
        tempfile.mkdtemp(),
        per_device_train_batch_size=8,
        learning_rate=1e-3,
        warmup_steps=2,
        report_to=[],
        use_cpu=True,
    )
    return Trainer(model=model, args=arguments, train_dataset=data)


def adapters_of_peft():
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    base = GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=4)
    )
    model = get_peft_model(
        base, LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    )
    ids = torch.randint(1, 50, (4, 12))
    labels = ids.clone()
    labels[:, :6] = -100
    labels[3, 9:] = -100
    return {
        "model": model,
        "batch": {"input_ids": ids, "labels": labels},
        "optimizer": torch.optim.AdamW(
            [p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.0
        ),
    }


def speech_separation():
    model = nn.Sequential(
        nn.Conv1d(1, 16, 9, padding=4), nn.PReLU(), nn.Conv1d(16, 2, 9, padding=4)
    )

    def loss(model, batch):
        mixture, sources = batch
        estimate = model(mixture.unsqueeze(1)).float()
        noise = (estimate - sources).square().sum(-1)
        ratio = sources.square().sum(-1) / (noise + 1e-8)
        return -10 * torch.log10(ratio + 1e-8).mean()

    time = torch.linspace(0, 20, 256)
    sources = torch.stack((torch.sin(time), torch.sin(9 * time)))
    sources = sources * torch.rand(4, 2, 1).add(0.5)
    return model, (sources.sum(dim=1), sources), loss


class PairedTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Linear(20, 16)
        self.text = nn.EmbeddingBag(40, 16)
        self.logit_scale = nn.Parameter(torch.tensor(1 / 0.07).log())

    def forward(self, pixels, ids):
        image = F.normalize(self.image(pixels).float(), dim=-1)
        text = F.normalize(self.text(ids).float(), dim=-1)
        logits = self.logit_scale.exp().clamp(max=100) * image @ text.T
        labels = torch.arange(len(logits), device=logits.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


def paired_towers():
    return PairedTowers(), {"pixels": torch.randn(8, 20), "ids": torch.randint(0, 40, (8, 6))}


def penalized_by_its_own_start():
    model = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 6))
    start = copy.deepcopy(model).eval().requires_grad_(False)

    def loss(model, batch):
        x, y = batch
        logits = model(x).float()
        with torch.no_grad():
            wanted = F.log_softmax(start.to(x.device)(x).float(), dim=-1)
        penalty = F.kl_div(
            F.log_softmax(logits, dim=-1), wanted, reduction="batchmean", log_target=True
        )
        return F.cross_entropy(logits, y) + 0.5 * penalty

    return model, (torch.randn(16, 10), torch.randint(0, 6, (16,))), loss


def half_precision_with_float_norms():
    model = nn.Sequential(
        nn.Linear(12, 32),
        nn.LayerNorm(32),
        nn.ReLU(),
        nn.Linear(32, 32),
        nn.ReLU(),
        nn.Linear(32, 4),
    ).bfloat16()
    model[1].float()

    def loss(model, batch):
        x, y = batch
        x = model[1](model[0](x.bfloat16()).float()).bfloat16()
        return F.cross_entropy(model[2:](x).float(), y)

    return {
        "model": model,
        "batch": (torch.randn(16, 12), torch.randint(0, 4, (16,))),
        "loss": loss,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    }
