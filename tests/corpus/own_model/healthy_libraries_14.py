"""Trainings with Lightning, transformers, peft, and the less common parts of torch."""

import copy
import functools
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.utils import parametrizations, parametrize
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler


@dataclass
class Clips:
    frames: torch.Tensor
    lengths: torch.Tensor
    labels: torch.Tensor


def _clips(rows):
    lengths = torch.tensor([len(frames) for frames, _ in rows])
    frames = nn.utils.rnn.pad_sequence([f for f, _ in rows], batch_first=True)
    return Clips(frames, lengths, torch.tensor([label for _, label in rows]))


class ClipReader(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 2, 32, batch_first=True, norm_first=True)
        self.inputs = nn.Linear(6, width)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, 3)

    def forward(self, frames, lengths):
        padding = torch.arange(frames.shape[1], device=frames.device) >= lengths[:, None]
        x = self.encoder(self.inputs(frames), src_key_padding_mask=padding)
        x = x.masked_fill(padding[..., None], -math.inf).amax(1)
        return self.out(x)


def clips_of_all_lengths():
    rows = [(torch.randn(int(n), 6), i % 3) for i, n in enumerate(torch.randint(1, 15, (20,)))]
    loader = DataLoader(rows, batch_size=10, collate_fn=_clips)

    def loss(model, clips):
        return F.cross_entropy(model(clips.frames, clips.lengths), clips.labels)

    return ClipReader(), loader, loss


def rare_classes_drawn_more_often():
    labels = (torch.rand(200) < 0.05).long()
    labels[0] = 1
    data = TensorDataset(torch.randn(200, 7) + labels[:, None], labels)
    weights = 1 / labels.bincount()[labels].double()
    loader = DataLoader(data, batch_size=50, sampler=WeightedRandomSampler(weights, 200))
    model = nn.Sequential(nn.Linear(7, 24), nn.CELU(), nn.Dropout(0.5), nn.Linear(24, 2))
    nn.init.zeros_(model[-1].weight)
    return model, loader, nn.CrossEntropyLoss(weight=torch.tensor([0.5, 2.0]))


def _lightning_module():
    try:
        import lightning.pytorch as pl
    except ImportError:
        import pytorch_lightning as pl
    return pl.LightningModule


def lightning_with_a_rate_that_begins_at_zero():
    class Classifier(_lightning_module()):
        def __init__(self):
            super().__init__()
            self.save_hyperparameters()
            self.net = nn.Sequential(
                nn.Conv2d(1, 8, 3, 2, 1, bias=False),
                nn.BatchNorm2d(8),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(8 * 49, 10),
            )

        def training_step(self, batch, index):
            x, y = batch
            logits = self.net(x)
            loss = F.cross_entropy(logits, y)
            self.log("train/accuracy", (logits.argmax(-1) == y).float().mean(), prog_bar=True)
            return {"loss": loss, "logits": logits.detach()}

        def train_dataloader(self):
            data = TensorDataset(torch.randn(64, 1, 14, 14), torch.randint(0, 10, (64,)))
            return DataLoader(data, batch_size=32, shuffle=True)

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1, s / 20))
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
            }

    return Classifier()


def lightning_with_a_fixed_backbone():
    class Transfer(_lightning_module()):
        def __init__(self):
            super().__init__()
            self.backbone = nn.Sequential(
                nn.Conv1d(3, 16, 5, 2), nn.BatchNorm1d(16), nn.ReLU(), nn.AdaptiveAvgPool1d(1)
            )
            self.backbone.requires_grad_(False)
            self.head = nn.Linear(16, 1)

        def training_step(self, batch, batch_idx):
            x, y = batch["x"], batch["y"]
            self.backbone.eval()
            with torch.no_grad():
                features = self.backbone(x).flatten(1)
            loss = F.binary_cross_entropy_with_logits(self.head(features).squeeze(-1), y)
            self.log_dict({"loss": loss, "positive": y.mean()})
            return loss

        def train_dataloader(self):
            rows = [{"x": torch.randn(3, 40), "y": float(i % 4 == 0)} for i in range(32)]
            return DataLoader(rows, batch_size=16, drop_last=True, collate_fn=self.collate)

        @staticmethod
        def collate(rows):
            y = torch.tensor([row["y"] for row in rows])
            return {"x": torch.stack([row["x"] for row in rows]), "y": y}

        def configure_optimizers(self):
            trained = filter(lambda p: p.requires_grad, self.parameters())
            optimizer = torch.optim.RMSprop(trained, lr=1e-2, centered=True)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.1)]

    return Transfer()


class Sentences(Dataset):
    def __init__(self, words, count=16, length=12):
        self.rows = torch.randint(4, words, (count, length))
        self.lengths = torch.randint(3, length + 1, (count,))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        n = int(self.lengths[i])
        ids = self.rows[i].clone()
        ids[n:] = 0
        mask = (torch.arange(len(ids)) < n).long()
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.where(mask.bool(), -100)}


def _arguments(**more):
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=str(Path(tempfile.gettempdir()) / "small-trainer"),
        per_device_train_batch_size=8,
        max_steps=50,
        report_to=[],
        use_cpu=not torch.cuda.is_available(),
        disable_tqdm=True,
        **more,
    )


def trainer_of_a_small_gpt():
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer

    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    size = {"n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2}
    config = GPT2Config(vocab_size=99, **size, **special)
    return Trainer(
        model=GPT2LMHeadModel(config),
        args=_arguments(learning_rate=5e-4, warmup_steps=10, max_grad_norm=0.1),
        train_dataset=Sentences(99),
    )


def trainer_with_lower_layers_fixed():
    from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer

    config = DistilBertConfig(
        vocab_size=99, dim=32, n_heads=2, n_layers=3, hidden_dim=48, num_labels=3
    )
    model = DistilBertForSequenceClassification(config)
    model.distilbert.embeddings.requires_grad_(False)
    model.distilbert.transformer.layer[0].requires_grad_(False)

    class Reviews(Sentences):
        def __getitem__(self, i):
            return super().__getitem__(i) | {"labels": i % 3}

    arguments = _arguments(
        learning_rate=3e-4, label_smoothing_factor=0.1, gradient_accumulation_steps=4
    )
    return Trainer(model=model, args=arguments, train_dataset=Reviews(99))


def translation_with_relative_positions():
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=80,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
    )
    model = T5ForConditionalGeneration(config)
    ids = torch.randint(2, 80, (6, 11))
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    mask[4, 1:] = 0
    labels = torch.randint(2, 80, (6, 9))
    labels[0, 2:] = -100
    return {
        "model": model,
        "batch": {"input_ids": ids, "attention_mask": mask, "labels": labels},
        "optimizer": torch.optim.Adafactor(model.parameters(), lr=1e-2),
    }


def hidden_words_of_a_bert():
    from transformers import BertConfig, BertForMaskedLM, get_linear_schedule_with_warmup

    config = BertConfig(
        vocab_size=120,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
    )
    model = BertForMaskedLM(config)
    ids = torch.randint(5, 120, (8, 24))
    hidden = torch.rand(8, 24) < 0.15
    hidden[:, 3] = True
    batch = {
        "input_ids": ids.masked_fill(hidden, 4),
        "attention_mask": torch.ones_like(ids),
        "labels": ids.where(hidden, -100),
    }
    plain = [p for n, p in model.named_parameters() if p.dim() < 2 or "LayerNorm" in n]
    decayed = [p for n, p in model.named_parameters() if p.dim() > 1 and "LayerNorm" not in n]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}], lr=5e-4
    )
    return {
        "model": model,
        "batch": batch,
        "optimizer": optimizer,
        "scheduler": get_linear_schedule_with_warmup(optimizer, 10, 100),
        "max_grad_norm": 1.0,
    }


def _small_llama(**more):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=90,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        **more,
    )
    return LlamaForCausalLM(config)


def llama_with_recomputed_layers():
    model = _small_llama(tie_word_embeddings=True)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.config.use_cache = False
    ids = torch.randint(0, 90, (4, 20))
    mask = torch.ones_like(ids)
    mask[:2, :7] = 0
    labels = ids.where(mask.bool(), -100)
    return model, {"input_ids": ids, "attention_mask": mask, "labels": labels}


def llama_in_bfloat16():
    model = _small_llama().to(torch.bfloat16)
    ids = torch.randint(0, 90, (4, 20))
    return {
        "model": model,
        "batch": {"input_ids": ids, "labels": ids},
        "optimizer": torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0),
    }


def adapters_on_a_llama():
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=4,
        lora_alpha=8,
        lora_dropout=0.05,
        target_modules=["q_proj", "v_proj", "down_proj"],
        use_rslora=True,
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(_small_llama(), config)
    ids = torch.randint(0, 90, (4, 16))
    labels = ids.clone()
    labels[:, :10] = -100
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2e-4)
    return {"model": model, "batch": {"input_ids": ids, "labels": labels}, "optimizer": optimizer}


def gains_on_a_llama():
    from peft import IA3Config, get_peft_model

    config = IA3Config(
        target_modules=["k_proj", "v_proj", "down_proj"],
        feedforward_modules=["down_proj"],
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(_small_llama(), config)
    ids = torch.randint(0, 90, (4, 16))
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=8e-3)
    return {"model": model, "batch": {"input_ids": ids, "labels": ids}, "optimizer": optimizer}


def pictures_and_captions():
    from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig

    size = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    text = CLIPTextConfig(
        vocab_size=64,
        max_position_embeddings=16,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        **size,
    )
    vision = CLIPVisionConfig(image_size=16, patch_size=8, **size)
    model = CLIPModel(
        CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=16)
    )
    ids = torch.randint(3, 64, (8, 10))
    ids[:, 0], ids[:, -1] = 1, 2
    batch = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": torch.randn(8, 3, 16, 16),
        "return_loss": True,
    }
    return model, batch


class Ensemble(nn.Module):
    def __init__(self, count=5):
        super().__init__()
        members = [
            nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)) for _ in range(count)
        ]
        weights, _ = stack_module_state(members)
        self.names = list(weights)
        self.weights = nn.ParameterList(nn.Parameter(w.detach()) for w in weights.values())
        self.skeleton = [copy.deepcopy(members[0]).to("meta")]

    def forward(self, x):
        def one(weights, x):
            return functional_call(self.skeleton[0], weights, (x,))

        return vmap(one, in_dims=(0, None))(dict(zip(self.names, self.weights, strict=True)), x)


def ensemble_with_its_own_variance():
    def loss(model, batch):
        x, y = batch
        mean, log_var = model(x).float().unbind(-1)
        return 0.5 * (log_var + (y - mean).square() * torch.exp(-log_var)).mean()

    x = torch.randn(50, 4)
    return Ensemble(), (x, 0.05 * x[:, 0]), loss


class Fast(nn.Module):
    """Three inner steps for each task, with a rate for each weight."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh())
        self.net.append(nn.Linear(24, 1))
        self.rates = nn.ParameterList(
            nn.Parameter(torch.full_like(p, 0.02)) for p in self.net.parameters()
        )

    def forward(self, x, y, x2, y2):
        total = 0
        for task in range(len(x)):
            weights = dict(self.net.named_parameters())
            for _ in range(3):
                inner = F.mse_loss(functional_call(self.net, weights, (x[task],)), y[task])
                grads = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
                steps = zip(weights.items(), grads, self.rates, strict=True)
                weights = {name: w - rate * g for (name, w), g, rate in steps}
            total = total + F.mse_loss(functional_call(self.net, weights, (x2[task],)), y2[task])
        return total / len(x)


def learning_the_inner_rates():
    phase, height = torch.rand(4, 1, 1) * math.pi, torch.rand(4, 1, 1) * 4 + 0.5
    x, x2 = torch.rand(4, 10, 1) * 10 - 5, torch.rand(4, 10, 1) * 10 - 5
    batch = {"x": x, "y": height * (x + phase).sin(), "x2": x2, "y2": height * (x2 + phase).sin()}
    model = Fast()
    return {
        "model": model,
        "batch": batch,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "max_grad_norm": 10.0,
    }


class Skew(nn.Module):
    def forward(self, x):
        return x.triu(1) - x.triu(1).T


class Positive(nn.Module):
    def forward(self, x):
        return F.softplus(x)

    def right_inverse(self, y):
        return y.expm1().clamp(min=1e-6).log()


def weights_under_constraints():
    class Constrained(nn.Module):
        def __init__(self):
            super().__init__()
            self.turn = parametrizations.orthogonal(nn.Linear(16, 16, bias=False))
            self.bound = parametrizations.spectral_norm(nn.Linear(16, 24))
            self.scale = parametrizations.weight_norm(nn.Linear(24, 8))
            self.grow = nn.Linear(8, 1)
            nn.init.uniform_(self.grow.weight, 0.01, 0.3)
            parametrize.register_parametrization(self.grow, "weight", Positive())
            self.lie = nn.Linear(16, 16, bias=False)
            parametrize.register_parametrization(self.lie, "weight", Skew())

        def forward(self, x):
            x = x + 0.1 * self.lie(self.turn(x))
            return self.grow(F.elu(self.scale(F.elu(self.bound(x)))))

    x = torch.randn(32, 16)
    return Constrained(), (x, x.sum(1, keepdim=True).tanh()), nn.MSELoss()


class Biased(nn.Module):
    """Attention with a linear bias of the distance, and rotated queries and keys."""

    def __init__(self, width=32, heads=4, window=6):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False)
        self.sink = nn.Parameter(torch.zeros(heads))
        self.register_buffer("slopes", 2.0 ** -torch.arange(2, 2 + 2 * heads, 2))
        self.heads, self.window = heads, window

    def rotate(self, x, place):
        half = x.shape[-1] // 2
        angle = place[:, None] * 10000.0 ** (-torch.arange(half, device=x.device) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    def forward(self, x, padding):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        place = torch.arange(x.shape[1], device=x.device)
        gap = place[:, None] - place
        bias = -self.slopes[:, None, None] * gap.abs()
        hidden = (gap < 0) | (gap >= self.window) | padding[:, None, None, :]
        q, k = self.rotate(q.float(), place), self.rotate(k.float(), place)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = (scores.float() + bias).masked_fill(hidden, -math.inf)
        sink = self.sink[:, None, None].expand(*scores.shape[:-1], 1)
        weights = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
        return self.out((weights.to(v.dtype) @ v).transpose(1, 2).flatten(2))


def sliding_windows_with_a_sink():
    class Windows(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(40, 32)
            self.norms = nn.ModuleList(nn.RMSNorm(32) for _ in range(3))
            self.layers = nn.ModuleList(Biased() for _ in range(3))
            self.final = nn.LayerNorm(32)
            nn.init.normal_(self.embed.weight, std=0.02)

        def forward(self, tokens):
            padding = tokens == 0
            x = self.embed(tokens)
            for norm, layer in zip(self.norms, self.layers, strict=True):
                x = x + checkpoint(layer, norm(x), padding, use_reentrant=False)
            logits = 15 * torch.tanh(self.final(x) @ self.embed.weight.T / 15)
            after = tokens[:, 1:].reshape(-1)
            return logits, F.cross_entropy(
                logits[:, :-1].flatten(0, 1).float(), after, ignore_index=0
            )

    tokens = torch.randint(1, 40, (4, 24))
    tokens[0, :9] = 0
    tokens[2, 15:] = 0
    return Windows(), (tokens,)


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["average"] = torch.zeros_like(p)
                average = state["average"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.sign(average.lerp(p.grad, 1 - first)), alpha=-group["lr"])
                average.lerp_(p.grad, 1 - second)
        return loss


def steps_by_the_sign():
    model = nn.Sequential(
        nn.Embedding(50, 24), nn.Flatten(), nn.Linear(24 * 6, 48), nn.ReLU(), nn.Linear(48, 50)
    )
    optimizer = Lion(model.parameters(), lr=3e-4, weight_decay=0.1)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 1e-3, total_iters=5)
    cosine = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 10, 2)
    return {
        "model": model,
        "batch": (torch.randint(0, 50, (32, 6)), torch.randint(0, 50, (32,))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cosine], [5]),
    }


def hooks_that_bound_and_average():
    class Hooked(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.GRU(5, 20, 2, batch_first=True)
            self.out = nn.Linear(20, 5)
            average = AveragedModel(self.out, multi_avg_fn=get_ema_multi_avg_fn(0.999))
            self.average = average.requires_grad_(False)
            for p in self.net.parameters():
                p.register_hook(lambda grad: torch.nan_to_num(grad).clamp(-0.01, 0.01))
            self.out.register_forward_pre_hook(self.follow)
            self.norms = []
            self.out.weight.register_post_accumulate_grad_hook(
                lambda p: self.norms.append(p.grad.norm().item())
            )

        def follow(self, layer, inputs):
            if self.training:
                self.average.update_parameters(layer)

        def forward(self, x):
            hidden, _ = self.net(x[:, :-1])
            return F.smooth_l1_loss(self.out(hidden).float(), x[:, 1:])

    model = Hooked()
    optimizer = torch.optim.Adam([*model.net.parameters(), *model.out.parameters()], lr=3e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, cooldown=2)
    return {
        "model": model,
        "batch": torch.randn(8, 30, 5).cumsum(1) / 5,
        "optimizer": optimizer,
        "scheduler": plateau,
    }


@functools.lru_cache(maxsize=1)
def _compiled():
    @torch.compile(dynamic=False)
    def mix(x, gate, value):
        return x + torch.sigmoid(gate) * F.silu(value)

    return mix


def gate_that_is_compiled():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.value = nn.Linear(12, 12), nn.Linear(12, 12)
            self.out = nn.Linear(12, 2)
            nn.init.zeros_(self.value.weight)
            nn.init.zeros_(self.value.bias)
            nn.init.constant_(self.gate.bias, -4)

        def forward(self, x):
            return self.out(_compiled()(x, self.gate(x), self.value(x)))

    return Gate(), (torch.randn(32, 12), torch.randint(0, 2, (32,))), nn.CrossEntropyLoss()


class Spectrum(nn.Module):
    def __init__(self, width=8, modes=5):
        super().__init__()
        self.low = nn.Parameter(torch.randn(width, width, modes, dtype=torch.cfloat) / width)
        self.point = nn.Conv1d(width, width, 1)
        self.modes = modes

    def forward(self, x):
        spectrum = torch.fft.rfft(x.float())
        kept = torch.einsum("bim,iom->bom", spectrum[..., : self.modes], self.low)
        kept = F.pad(kept, (0, spectrum.shape[-1] - self.modes))
        return F.gelu(torch.fft.irfft(kept, n=x.shape[-1]) + self.point(x))


def operator_in_the_spectrum():
    model = nn.Sequential(
        nn.Conv1d(2, 8, 1), Spectrum(), Spectrum(), Spectrum(), nn.Conv1d(8, 1, 1)
    )
    grid = torch.linspace(0, 1, 33)[:-1].expand(10, 1, -1)
    start = torch.sin(2 * math.pi * (grid + torch.rand(10, 1, 1)))
    target = start.roll(4, -1) * 0.9

    def loss(model, batch):
        x, y = batch
        error = torch.linalg.vector_norm(model(x).float() - y, dim=(1, 2))
        return (error / torch.linalg.vector_norm(y, dim=(1, 2))).mean()

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, 100, div_factor=1e4)
    return {
        "model": model,
        "batch": (torch.cat([start, grid], 1), target),
        "loss": loss,
        "optimizer": optimizer,
        "scheduler": schedule,
    }
