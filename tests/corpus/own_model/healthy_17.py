"""Trainings of everyday models: language, speech, recommendation, tables, series, control."""

import copy
import tempfile

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import (
    Adafactor,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
    get_linear_schedule_with_warmup,
)


class _LowRank(nn.Module):
    def __init__(self, base, rank=4, alpha=8):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * self.up(self.down(x))


def adapted_llama_with_little_memory():
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_cache=False,
    )
    model = LlamaForCausalLM(config)
    model.requires_grad_(False)
    for layer in model.model.layers:
        layer.self_attn.q_proj = _LowRank(layer.self_attn.q_proj)
        layer.self_attn.v_proj = _LowRank(layer.self_attn.v_proj)
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    ids = torch.randint(0, 96, (2, 16))
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


class _Policy(nn.Module):
    """A small causal language model whose output layer shares its table of words."""

    def __init__(self, words=60, width=32, longest=64):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.place = nn.Embedding(longest, width)
        nn.init.normal_(self.embed.weight, std=0.05)
        nn.init.normal_(self.place.weight, std=0.05)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        x = self.embed(tokens) + self.place(torch.arange(length))
        return self.head(self.body(x, mask=mask, is_causal=True))


def _token_logps(model, tokens):
    logits = model(tokens[:, :-1]).float()
    return logits.log_softmax(-1).gather(-1, tokens[:, 1:, None]).squeeze(-1)


def answers_in_groups():
    def loss(model, batch):
        tokens, rewards, mask = batch["tokens"], batch["rewards"], batch["mask"][:, 1:]
        grouped = rewards.view(-1, 4)
        deviation = grouped.std(1, keepdim=True) + 1e-4
        advantages = ((grouped - grouped.mean(1, keepdim=True)) / deviation).view(-1, 1)
        logps = _token_logps(model, tokens)
        ratio = torch.exp(logps - logps.detach())
        surrogate = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        return -((surrogate * mask).sum(1) / mask.sum(1)).mean()

    tokens = torch.randint(1, 60, (12, 20))
    mask = (torch.arange(20) >= 8).float().repeat(12, 1)
    rewards = torch.tensor([1.0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1])
    model = _Policy(longest=19)
    return model, {"tokens": tokens, "rewards": rewards, "mask": mask}, loss


def pairs_of_answers():
    model = _Policy(longest=39)
    reference = copy.deepcopy(model).requires_grad_(False)

    def loss(model, batch):
        chosen = _token_logps(model, batch["chosen"]).sum(1)
        rejected = _token_logps(model, batch["rejected"]).sum(1)
        with torch.no_grad():
            base = _token_logps(reference, batch["chosen"]).sum(1)
            base = base - _token_logps(reference, batch["rejected"]).sum(1)
        return -F.logsigmoid(0.1 * (chosen - rejected - base)).mean()

    batch = {
        "chosen": torch.randint(0, 60, (4, 40)),
        "rejected": torch.randint(0, 60, (4, 40)),
    }
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0)
    return {"model": model, "batch": batch, "loss": loss, "optimizer": optimizer}


def speech_with_a_silent_clip():
    class Recognizer(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("window", torch.hann_window(256))
            self.rnn = nn.GRU(129, 32, batch_first=True, bidirectional=True)
            self.head = nn.Linear(64, 27)

        def forward(self, wave, frames, targets, target_lengths):
            spectrum = torch.stft(wave, 256, 128, window=self.window, return_complex=True)
            x = spectrum.abs().pow(2).clamp(min=1e-10).log10().transpose(1, 2)
            x = torch.maximum(x, x.amax((1, 2), keepdim=True) - 8.0)
            x = (x + 4.0) / 4.0
            log_probs = self.head(self.rnn(x)[0]).float().log_softmax(-1)
            return F.ctc_loss(
                log_probs.transpose(0, 1), targets, frames, target_lengths, zero_infinity=True
            )

    wave = torch.randn(4, 2560) * 0.05
    wave[1] = 0.0
    targets = pad_sequence(
        [
            torch.tensor([8, 5, 12, 12, 15]),
            torch.tensor([], dtype=torch.long),
            torch.full((12,), 7),
            torch.arange(1, 7),
        ],
        batch_first=True,
    )
    lengths = torch.tensor([5, 0, 12, 6])
    frames = torch.full((4,), 21)
    batch = {"wave": wave, "frames": frames, "targets": targets, "target_lengths": lengths}
    return Recognizer(), batch


def gpt2_with_adapters():
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=90, n_positions=32, n_embd=32, n_layer=2, n_head=4)
    )
    config = LoraConfig(
        r=4,
        lora_alpha=8,
        lora_dropout=0.05,
        target_modules=["c_attn", "c_fc"],
        fan_in_fan_out=True,
    )
    model = get_peft_model(model, config)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2e-3)
    scheduler = get_linear_schedule_with_warmup(optimizer, 10, 1000)
    ids = torch.randint(0, 90, (4, 20))
    labels = ids.clone()
    labels[:, :9] = -100
    return {
        "model": model,
        "batch": {"input_ids": ids, "labels": labels},
        "optimizer": optimizer,
        "scheduler": scheduler,
        "max_grad_norm": 1.0,
    }


def pages_of_a_book():
    class Pages(nn.Module):
        def __init__(self, words=50, width=48):
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.rnn = nn.LSTM(width, width, 2)
            self.head = nn.Linear(width, words)
            self.head.weight = self.embed.weight
            nn.init.uniform_(self.embed.weight, -0.1, 0.1)
            nn.init.zeros_(self.head.bias)
            self.state = None

        def forward(self, tokens):
            if self.state is not None:
                self.state = tuple(s.detach() for s in self.state)
            x, self.state = self.rnn(self.embed(tokens), self.state)
            return self.head(x)

    def loss(model, batch):
        tokens, following = batch
        return F.cross_entropy(model(tokens).flatten(0, 1), following.flatten())

    model = Pages()
    text = torch.randint(0, 50, (21, 8))
    return {
        "model": model,
        "batch": (text[:-1], text[1:]),
        "loss": loss,
        "optimizer": torch.optim.SGD(model.parameters(), lr=5.0),
        "max_grad_norm": 0.25,
    }


def pole_with_a_slow_copy():
    class Learner(nn.Module):
        def __init__(self):
            super().__init__()
            self.online = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
            self.slow = copy.deepcopy(self.online).requires_grad_(False)

        def follow(self, share=0.005):
            with torch.no_grad():
                for new, old in zip(self.online.parameters(), self.slow.parameters(), strict=True):
                    old.lerp_(new, share)

    def loss(model, batch):
        model.follow()
        values = model.online(batch["state"]).gather(1, batch["action"][:, None]).squeeze(1)
        with torch.no_grad():
            best = model.online(batch["following"]).argmax(1, keepdim=True)
            ahead = model.slow(batch["following"]).gather(1, best).squeeze(1)
            target = batch["reward"] + 0.99 * (1 - batch["done"]) * ahead.float()
        return F.smooth_l1_loss(values.float(), target)

    batch = {
        "state": torch.randn(32, 4),
        "action": torch.randint(0, 2, (32,)),
        "following": torch.randn(32, 4),
        "reward": torch.ones(32),
        "done": (torch.rand(32) < 0.1).float(),
    }
    return Learner(), batch, loss


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step):
        levels = x / step
        ctx.save_for_backward(levels.abs() <= 7)
        return levels.round().clamp(-7, 7) * step

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad * inside, None


def tables_in_four_bits():
    class Layer(nn.Linear):
        def forward(self, x):
            step = self.weight.detach().abs().amax(1, keepdim=True) / 7
            return F.linear(x, _Rounded.apply(self.weight, step), self.bias)

    model = nn.Sequential(Layer(12, 48, bias=False), nn.BatchNorm1d(48), nn.ReLU(), Layer(48, 3))
    return model, (torch.randn(64, 12), torch.randint(0, 3, (64,))), nn.CrossEntropyLoss()


def encoder_with_weights_in_bfloat16():
    class Encoder(nn.Module):
        def __init__(self, words=70, width=32):
            super().__init__()
            self.embed = nn.Embedding(words, width, padding_idx=0)
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
            self.mix = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
            self.score = nn.Linear(width, 1, bias=False)
            self.head = nn.Linear(width, 4)
            for layer in (*self.mix, self.score, self.head):
                layer.to(torch.bfloat16)

        def forward(self, tokens):
            x = self.embed(tokens)
            for norm, mix in zip(self.norms, self.mix, strict=True):
                x = x + F.gelu(mix(norm(x).to(torch.bfloat16))).float()
            scores = self.score(x.to(torch.bfloat16)).float()
            scores = scores.masked_fill((tokens == 0)[..., None], float("-inf"))
            pooled = (scores.softmax(1) * x).sum(1)
            return self.head(pooled.to(torch.bfloat16)).float()

    tokens = torch.randint(1, 70, (8, 12))
    tokens[2, 5:] = 0
    tokens[6, 1:] = 0
    model = Encoder()
    return {
        "model": model,
        "batch": (tokens, torch.randint(0, 4, (8,))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0),
    }


def t5_with_adafactor():
    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=64,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            dropout_rate=0.0,
        )
    )
    optimizer = Adafactor(model.parameters(), lr=None, relative_step=True, scale_parameter=True)
    ids, labels = torch.randint(2, 64, (4, 12)), torch.randint(2, 64, (4, 7))
    labels[1, 4:] = -100
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    return {"model": model, "batch": batch, "optimizer": optimizer}


def next_songs():
    class Towers(nn.Module):
        def __init__(self, songs=80, width=24):
            super().__init__()
            self.songs = nn.Embedding(songs, width, padding_idx=0)
            self.body = nn.Sequential(nn.Linear(width, 48), nn.ReLU(), nn.Linear(48, width))
            self.log_scale = nn.Parameter(torch.tensor(2.3))

        def forward(self, history):
            seen = (history != 0).float()[..., None]
            mean = (self.songs(history) * seen).sum(1) / seen.sum(1).clamp(min=1)
            return F.normalize(self.body(mean).float(), dim=-1)

    def loss(model, batch):
        following = batch["following"]
        items = F.normalize(model.songs(following), dim=-1)
        scores = model.log_scale.exp() * model(batch["history"]).float() @ items.t()
        scores = scores - batch["frequency"].log()
        again = following[:, None] == following[None]
        again.fill_diagonal_(False)
        scores = scores.float().masked_fill(again, float("-inf"))
        return F.cross_entropy(scores, torch.arange(len(scores)))

    history, following = torch.randint(1, 80, (16, 6)), torch.randint(1, 80, (16,))
    history[4], history[9, 2:] = 0, 0
    following[7] = following[3]
    batch = {"history": history, "following": following, "frequency": torch.rand(16) * 0.1 + 1e-3}
    return Towers(), batch, loss


def _collate_demand(samples):
    history = pad_sequence([s["history"] for s in samples], batch_first=True)
    lengths = torch.tensor([len(s["history"]) for s in samples])
    return {
        "history": history,
        "lengths": lengths,
        "future": torch.stack([s["future"] for s in samples]),
    }


def quantiles_of_demand():
    class Demand(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.save_hyperparameters()
            self.rnn = nn.GRU(1, 32, batch_first=True)
            self.norm = nn.LayerNorm(32)
            self.head = nn.Linear(32, 4 * 3)
            nn.init.zeros_(self.head.weight)
            self.register_buffer("quantiles", torch.tensor([0.1, 0.5, 0.9]))

        def training_step(self, batch, index):
            history, lengths = batch["history"], batch["lengths"]
            inside = (torch.arange(history.shape[1]) < lengths[:, None]).float()
            level = (history * inside).sum(1, keepdim=True) / lengths[:, None]
            level = level.clamp(min=1e-3)
            states, _ = self.rnn((history / level)[..., None])
            last = states[torch.arange(len(states)), lengths - 1]
            forecast = self.head(self.norm(last)).float().view(-1, 4, 3)
            target = batch["future"] / level
            known = ~target.isnan()
            error = target[known][:, None] - forecast[known]
            loss = torch.maximum(self.quantiles * error, (self.quantiles - 1) * error).mean()
            self.log("pinball", loss.item())
            return loss

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=300)
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
            }

        def train_dataloader(self):
            rows = [{"history": torch.rand(n) * 9, "future": torch.rand(4) * 9} for n in (9, 5, 7)]
            rows.append({"history": torch.zeros(6), "future": torch.zeros(4)})
            rows[1]["future"][2:] = float("nan")
            return DataLoader(rows, batch_size=4, collate_fn=_collate_demand)

    return Demand()


def summaries_by_a_trainer():
    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=64,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=1,
            num_heads=4,
            decoder_start_token_id=0,
        )
    )
    model.encoder.requires_grad_(False)
    model.shared.requires_grad_(True)
    rows = []
    for length in (7, 4, 6, 5, 7, 7, 3, 6):
        labels = torch.randint(2, 64, (7,))
        labels[length:] = -100
        rows.append({"input_ids": torch.randint(2, 64, (10,)), "labels": labels})
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        max_steps=200,
        warmup_steps=20,
        report_to=[],
        use_cpu=True,
    )
    return Trainer(model=model, args=arguments, train_dataset=rows)
