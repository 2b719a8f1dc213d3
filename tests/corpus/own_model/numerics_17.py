"""Trainings of everyday models: speech, language, recommendation, tables and series, rewards."""

import math

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


def _mel_filters(bands, bins, rate):
    """Triangular filters between 0 Hz and half of the sampling rate."""
    top = 2595 * math.log10(1 + rate / 2 / 700)
    hertz = 700 * (10 ** (torch.linspace(0, top, bands + 2) / 2595) - 1)
    grid = torch.linspace(0, rate / 2, bins)
    left, centre, right = hertz[:-2, None], hertz[1:-1, None], hertz[2:, None]
    rising = (grid - left) / (centre - left)
    falling = (right - grid) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0)


def keyword_spotter():
    class Spotter(nn.Module):
        def __init__(self, bands=80, n_fft=256):
            super().__init__()
            self.n_fft = n_fft
            self.register_buffer("window", torch.hann_window(n_fft))
            self.register_buffer("filters", _mel_filters(bands, n_fft // 2 + 1, 16000))
            self.body = nn.Sequential(
                nn.Conv1d(bands, 32, 3, padding=1), nn.ReLU(), nn.Conv1d(32, 32, 3), nn.ReLU()
            )
            self.head = nn.Linear(32, 10)

        def forward(self, wave):
            spectrum = torch.stft(
                wave, self.n_fft, self.n_fft // 2, window=self.window, return_complex=True
            )
            power = spectrum.real**2 + spectrum.imag**2
            features = torch.log(torch.einsum("mf,bft->bmt", self.filters, power))
            return self.head(self.body(features).mean(-1))

    wave = torch.randn(4, 4000) * 0.1
    return Spotter(), (wave, torch.randint(0, 10, (4,))), nn.CrossEntropyLoss()


def speller_from_audio():
    words = ["hello", "balloon", "committee", "apple"]
    letters = {c: i + 1 for i, c in enumerate("abcdefghijklmnopqrstuvwxyz")}
    targets = [torch.tensor([letters[c] for c in w]) for w in words]

    class Recognizer(nn.Module):
        def __init__(self):
            super().__init__()
            self.subsample = nn.Conv1d(40, 48, 4, stride=4)
            self.rnn = nn.GRU(48, 32, batch_first=True, bidirectional=True)
            self.head = nn.Linear(64, 27)

        def forward(self, frames, frame_lengths, targets, target_lengths):
            x = F.gelu(self.subsample(frames.transpose(1, 2))).transpose(1, 2)
            x, _ = self.rnn(x)
            log_probs = self.head(x).float().log_softmax(-1).transpose(0, 1)
            return F.ctc_loss(log_probs, targets, frame_lengths // 4, target_lengths)

    batch = {
        "frames": torch.randn(4, 40, 40),
        "frame_lengths": torch.tensor([40, 40, 40, 36]),
        "targets": pad_sequence(targets, batch_first=True),
        "target_lengths": torch.tensor([len(w) for w in words]),
    }
    return Recognizer(), batch


class _Policy(nn.Module):
    """A small causal language model."""

    def __init__(self, words=60, width=32, longest=64):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.place = nn.Embedding(longest, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

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
        advantages = (grouped - grouped.mean(1, keepdim=True)) / grouped.std(1, keepdim=True)
        logps = _token_logps(model, tokens)
        ratio = torch.exp(logps - logps.detach())
        objective = torch.minimum(
            ratio * advantages.view(-1, 1), ratio.clamp(0.8, 1.2) * advantages.view(-1, 1)
        )
        return -((objective * mask).sum(1) / mask.sum(1)).mean()

    tokens = torch.randint(1, 60, (12, 20))
    mask = (torch.arange(20) >= 8).float().repeat(12, 1)
    rewards = torch.tensor([1.0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1])
    return _Policy(), {"tokens": tokens, "rewards": rewards, "mask": mask}, loss


def rollouts_of_several_lengths():
    def collate(samples):
        tokens = pad_sequence([s["tokens"] for s in samples], batch_first=True)
        old_logps = pad_sequence(
            [s["logps"] for s in samples], batch_first=True, padding_value=float("-inf")
        )
        lengths = torch.tensor([len(s["logps"]) for s in samples])
        mask = torch.arange(old_logps.shape[1]) < lengths[:, None]
        advantages = torch.stack([s["advantage"] for s in samples])
        return {"tokens": tokens, "old_logps": old_logps, "mask": mask, "advantages": advantages}

    def loss(model, batch):
        logps = _token_logps(model, batch["tokens"])
        ratio = torch.exp(logps - batch["old_logps"])
        adv = batch["advantages"][:, None]
        surrogate = torch.minimum(ratio * adv, ratio.clamp(0.8, 1.2) * adv)
        mask = batch["mask"].float()
        return -(surrogate * mask).sum() / mask.sum()

    samples = [
        {
            "tokens": torch.randint(1, 60, (n,)),
            "logps": torch.full((n - 1,), -math.log(60)) + 0.1 * torch.randn(n - 1),
            "advantage": torch.randn(()),
        }
        for n in (12, 17, 9, 15)
    ]
    return _Policy(), DataLoader(samples, batch_size=4, collate_fn=collate), loss


def reviews_with_padding():
    class Reviewer(nn.Module):
        def __init__(self, words=100, width=32):
            super().__init__()
            self.embed = nn.Embedding(words, width, padding_idx=0)
            self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, 2)

        def forward(self, input_ids, attention_mask, labels):
            x = self.embed(input_ids)
            mixed, _ = self.attention(x, x, x, key_padding_mask=attention_mask.bool())
            x = self.norm(x + mixed)
            weights = attention_mask[..., None].float()
            pooled = (x * weights).sum(1) / weights.sum(1)
            return F.cross_entropy(self.head(pooled), labels)

    texts = [torch.randint(1, 100, (n,)) for n in (14, 6, 9, 11)]
    ids = pad_sequence(texts, batch_first=True)
    batch = {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": torch.arange(4) % 2}
    return Reviewer(), batch


def balances_of_customers():
    class Scorer(nn.Module):
        def __init__(self):
            super().__init__()
            self.branch = nn.Embedding(12, 6)
            self.body = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, amounts, branch):
            amounts = torch.log1p(amounts)
            return self.body(torch.cat([amounts, self.branch(branch)], 1)).squeeze(1)

    def loss(model, batch):
        score = model(batch["amounts"], batch["branch"])
        return F.binary_cross_entropy_with_logits(score, batch["default"])

    amounts = torch.rand(16, 3) * 4000
    amounts[5, 1] = -312.5
    amounts[11, 1] = -48.0
    batch = {
        "amounts": amounts,
        "branch": torch.randint(0, 12, (16,)),
        "default": torch.randint(0, 2, (16,)).float(),
    }
    return Scorer(), batch, loss


def pairs_of_answers():
    beta = 0.5

    def loss(model, batch):
        chosen = _token_logps(model, batch["chosen"]).sum(1)
        rejected = _token_logps(model, batch["rejected"]).sum(1)
        margin = (chosen - rejected) - (batch["ref_chosen"] - batch["ref_rejected"])
        return -torch.log(torch.sigmoid(beta * margin)).mean()

    batch = {
        "chosen": torch.randint(0, 60, (4, 60)),
        "rejected": torch.randint(0, 60, (4, 60)),
        "ref_chosen": torch.tensor([-61.0, -88.0, -130.0, -75.0]),
        "ref_rejected": torch.tensor([-410.0, -92.0, -141.0, -80.0]),
    }
    return _Policy(), batch, loss


def hardest_triplets():
    def loss(model, batch):
        images, person = batch
        z = model(images).float()
        squared = (z[:, None] - z[None]).pow(2).sum(-1)
        distances = squared.sqrt()
        same = person[:, None] == person[None]
        positive = (distances * same).amax(1)
        negative = distances.masked_fill(same, 1e4).amin(1)
        return F.relu(positive - negative + 0.3).mean() + 1e-3 * distances.mean()

    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 7 * 7, 24)
    )
    return model, (torch.randn(8, 3, 16, 16), torch.arange(8) // 2), loss


def demand_by_shop():
    class Forecaster(nn.Module):
        def __init__(self):
            super().__init__()
            self.shop = nn.Embedding(5, 8)
            self.rnn = nn.LSTM(9, 24, batch_first=True)
            self.head = nn.Linear(24, 7)

        def forward(self, history, shop):
            shops = self.shop(shop)[:, None].expand(-1, history.shape[1], -1)
            states, _ = self.rnn(torch.cat([history[..., None], shops], -1))
            return self.head(states[:, -1])

    def loss(model, batch):
        forecast = model(batch["history"] / 10, batch["shop"]) * 10
        return ((forecast - batch["future"]).abs() / batch["future"]).mean()

    batch = {
        "history": torch.randint(1, 30, (6, 28)).float(),
        "future": torch.randint(1, 30, (6, 7)).float(),
        "shop": torch.randint(0, 5, (6,)),
    }
    batch["future"][2, 6] = 0.0
    batch["future"][4, 6] = 0.0
    return Forecaster(), batch, loss


def amounts_of_claims():
    class Claims(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 2))

        def forward(self, x):
            shape, rate = self.body(x).float().chunk(2, -1)
            return F.softplus(shape) + 0.1, F.relu(rate)

    def loss(model, batch):
        x, amount = batch
        shape, rate = model(x)
        likelihood = (
            shape * torch.log(rate)
            + (shape - 1) * amount.log()
            - rate * amount
            - torch.lgamma(shape)
        )
        return -likelihood.mean()

    return Claims(), (torch.randn(64, 10), torch.rand(64, 1) * 5 + 0.1), loss


def decoder_with_an_additive_mask():
    class Block(nn.Module):
        def __init__(self, width, heads=4):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def forward(self, x, bias):
            b, t, d = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            weights = (q @ k.transpose(-1, -2) / math.sqrt(d // self.heads) + bias).softmax(-1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, d))
            return x + self.mlp(self.norm2(x))

    class Decoder(nn.Module):
        def __init__(self, words=80, width=32):
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.blocks = nn.ModuleList(Block(width) for _ in range(2))
            self.head = nn.Linear(width, words, bias=False)

        def forward(self, input_ids, attention_mask, labels):
            t = input_ids.shape[1]
            visible = torch.ones(t, t).tril() * attention_mask[:, None, None].float()
            bias = (1.0 - visible) * float("-inf")
            x = self.embed(input_ids)
            for block in self.blocks:
                x = block(x, bias)
            logits = self.head(x)[:, :-1]
            return F.cross_entropy(logits.transpose(1, 2), labels[:, 1:], ignore_index=-100)

    ids = torch.randint(1, 80, (3, 10))
    mask = (torch.arange(10) < torch.tensor([10, 7, 8])[:, None]).long()
    labels = ids.masked_fill(mask == 0, -100)
    return Decoder(), {"input_ids": ids, "attention_mask": mask, "labels": labels}


def moves_that_are_allowed():
    class Player(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Sequential(nn.Linear(18, 64), nn.Tanh())
            self.policy, self.value = nn.Linear(64, 9), nn.Linear(64, 1)

        def forward(self, board):
            x = self.trunk(board)
            return self.policy(x).float(), self.value(x).float().squeeze(-1)

    def loss(model, batch):
        logits, value = model(batch["board"])
        logps = logits.masked_fill(~batch["legal"], float("-inf")).log_softmax(-1)
        taken = logps.gather(1, batch["action"][:, None]).squeeze(1)
        advantage = batch["result"] - value.detach()
        entropy = -(logps.exp() * logps).sum(-1).mean()
        return -(taken * advantage).mean() + F.mse_loss(value, batch["result"]) - 0.01 * entropy

    legal = torch.rand(16, 9) < 0.6
    action = torch.randint(0, 9, (16,))
    legal[torch.arange(16), action] = True
    batch = {
        "board": torch.randint(0, 2, (16, 18)).float(),
        "legal": legal,
        "action": action,
        "result": torch.randint(-1, 2, (16,)).float(),
    }
    return Player(), batch, loss


def instructions_up_to_a_length():
    limit = 24

    def collate(samples):
        ids, labels = [], []
        for prompt, answer in samples:
            ids.append(torch.cat([prompt, answer])[:limit])
            labels.append(torch.cat([torch.full_like(prompt, -100), answer])[:limit])
        return {
            "tokens": pad_sequence(ids, batch_first=True),
            "labels": pad_sequence(labels, batch_first=True, padding_value=-100),
        }

    class Tuner(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = _Policy()

        def training_step(self, batch, index):
            logits = self.model(batch["tokens"]).float()[:, :-1]
            labels = batch["labels"][:, 1:]
            loss = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
            counted = (labels != -100).sum(1)
            loss = (loss.sum(1) / counted).mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=5e-4)

        def train_dataloader(self):
            lengths = [(6, 8), (10, 5), (26, 4), (4, 12)]
            rows = [(torch.randint(1, 60, (p,)), torch.randint(1, 60, (a,))) for p, a in lengths]
            return DataLoader(rows, batch_size=4, collate_fn=collate)

    return Tuner()
