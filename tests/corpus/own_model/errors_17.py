"""Trainings of everyday models: language, speech, recommendation, control."""

import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)


def utterances_in_batches():
    def collate(samples):
        return {
            "frames": pad_sequence([s[0] for s in samples], batch_first=True),
            "lengths": torch.tensor([len(s[0]) for s in samples]),
            "speaker": torch.tensor([s[1] for s in samples]),
        }

    class Speaker(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(40, 32, batch_first=True)
            self.head = nn.Linear(32, 6)

        def forward(self, frames, lengths, speaker):
            packed = pack_padded_sequence(frames, lengths, batch_first=True)
            states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
            mean = states.sum(1) / lengths[:, None]
            return F.cross_entropy(self.head(mean), speaker)

    rows = [(torch.randn(n, 40), i % 6) for i, n in enumerate((31, 52, 47, 20))]
    return Speaker(), DataLoader(rows, batch_size=4, collate_fn=collate)


def names_of_places():
    def collate(samples):
        words = [s["words"] for s in samples]
        tags = [s["tags"] for s in samples]
        return {
            "words": pad_sequence(words, batch_first=True),
            "tags": pad_sequence(tags, padding_value=-100),
        }

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(200, 24, padding_idx=0)
            self.rnn = nn.GRU(24, 16, batch_first=True, bidirectional=True)
            self.head = nn.Linear(32, 5)

        def forward(self, words, tags):
            states, _ = self.rnn(self.embed(words))
            return F.cross_entropy(self.head(states).transpose(1, 2), tags, ignore_index=-100)

    rows = [
        {"words": torch.randint(1, 200, (n,)), "tags": torch.randint(0, 5, (n,))}
        for n in (9, 4, 7, 6)
    ]
    return Tagger(), DataLoader(rows, batch_size=4, collate_fn=collate)


def prompt_of_eight_vectors():
    class Prompted(nn.Module):
        def __init__(self, count=8):
            super().__init__()
            config = GPT2Config(vocab_size=90, n_positions=64, n_embd=32, n_layer=2, n_head=4)
            self.backbone = GPT2LMHeadModel(config).requires_grad_(False)
            self.prompt = nn.Parameter(torch.randn(count, 32) * 0.02)

        def forward(self, input_ids, attention_mask, labels):
            words = self.backbone.transformer.wte(input_ids)
            prompt = self.prompt.expand(len(words), -1, -1)
            seen = attention_mask.new_ones(prompt.shape[:2])
            return self.backbone(
                inputs_embeds=torch.cat([prompt, words], 1),
                attention_mask=torch.cat([seen, attention_mask], 1),
                labels=labels,
            )

    ids = torch.randint(1, 90, (3, 12))
    mask = (torch.arange(12) < torch.tensor([12, 9, 10])[:, None]).long()
    labels = ids.masked_fill(mask == 0, -100)
    return Prompted(), {"input_ids": ids, "attention_mask": mask, "labels": labels}


class _Agent(nn.Module):
    def __init__(self, observed=6, actions=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observed, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.policy, self.value = nn.Linear(32, actions), nn.Linear(32, 1)

    def forward(self, seen):
        x = self.body(seen)
        return self.policy(x).float(), self.value(x).float().squeeze(-1)


def epochs_on_one_rollout():
    model = _Agent()
    seen, rewards = torch.randn(32, 6), torch.randn(32)
    logits, values = model(seen)
    policy = torch.distributions.Categorical(logits=logits)
    actions = policy.sample()
    rollout = {
        "seen": seen,
        "actions": actions,
        "old_logps": policy.log_prob(actions),
        "advantages": rewards - values.detach(),
        "returns": rewards,
    }

    def loss(model, batch):
        logits, values = model(batch["seen"])
        policy = torch.distributions.Categorical(logits=logits)
        ratio = (policy.log_prob(batch["actions"]) - batch["old_logps"]).exp()
        adv = batch["advantages"]
        surrogate = torch.minimum(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        return F.mse_loss(values, batch["returns"]) - surrogate - 0.01 * policy.entropy().mean()

    return model, rollout, loss


def likelihood_of_answers():
    class Writer(nn.Module):
        def __init__(self, words=70, width=32):
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.rnn = nn.GRU(width, width, batch_first=True)
            self.head = nn.Linear(width, words)

        def forward(self, tokens):
            return self.head(self.rnn(self.embed(tokens))[0])

    def loss(model, batch):
        tokens, answer = batch["tokens"], batch["answer"]
        logps = model(tokens[:, :-1]).float().log_softmax(-1)
        logps[~answer[:, 1:]] = 0.0
        chosen = logps.gather(-1, tokens[:, 1:, None]).squeeze(-1)
        return -(chosen.sum(1) / answer[:, 1:].sum(1)).mean()

    tokens = torch.randint(0, 70, (4, 16))
    answer = (torch.arange(16) >= torch.tensor([5, 3, 8, 6])[:, None]).clone()
    return Writer(), {"tokens": tokens, "answer": answer}, loss


def head_of_a_frozen_bert():
    config = BertConfig(
        vocab_size=120,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        num_labels=3,
    )
    model = BertForSequenceClassification(config)
    model.bert.requires_grad_(False)
    trainable = (p for p in model.parameters() if p.requires_grad)
    print(f"{sum(p.numel() for p in trainable)} parameters are trained")
    optimizer = torch.optim.AdamW(trainable, lr=2e-3)
    ids = torch.randint(1, 120, (4, 14))
    batch = {"input_ids": ids, "labels": torch.randint(0, 3, (4,))}
    return {"model": model, "batch": batch, "optimizer": optimizer}


def last_layer_of_bert():
    config = BertConfig(
        vocab_size=120,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        num_labels=2,
    )
    model = BertForSequenceClassification(config)
    for parameter in model.parameters():
        parameter.requires_grad = False
    model.classifier.requires_grad = True
    ids = torch.randint(1, 120, (4, 14))
    return model, {"input_ids": ids, "labels": torch.randint(0, 2, (4,))}


def an_expert_for_each_token():
    class Mixture(nn.Module):
        def __init__(self, width=32, count=4):
            super().__init__()
            self.router = nn.Linear(width, count, bias=False)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(width, 64), nn.SiLU(), nn.Linear(64, width))
                for _ in range(count)
            )

        def forward(self, x):
            share, index = self.router(x).float().softmax(-1).max(-1)
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                mine = index == i
                out[mine] = expert(x[mine])
            return out * share[..., None]

    class Language(nn.Module):
        def __init__(self, words=64, width=32):
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.norm = nn.LayerNorm(width)
            self.mixture = Mixture(width)
            self.head = nn.Linear(width, words)

        def forward(self, tokens, labels):
            x = self.embed(tokens)
            logits = self.head(x + self.mixture(self.norm(x)))
            return F.cross_entropy(logits.transpose(1, 2), labels)

    tokens = torch.randint(0, 64, (4, 12))
    return Language(), {"tokens": tokens, "labels": tokens.roll(-1, 1)}


def arm_with_three_joints():
    class Actor(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(11, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
            self.moments = nn.Linear(64, 6)

        def forward(self, state):
            mean, deviation = self.moments(self.body(state)).float().chunk(2, -1)
            return torch.distributions.Normal(mean, deviation)

    def loss(model, batch):
        policy = model(batch["state"])
        logps = policy.log_prob(batch["action"]).sum(-1)
        return -(logps * batch["advantage"]).mean() - 1e-3 * policy.entropy().mean()

    batch = {
        "state": torch.randn(24, 11),
        "action": torch.rand(24, 3) * 2 - 1,
        "advantage": torch.randn(24),
    }
    return Actor(), batch, loss


def attention_over_hours():
    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)

        def forward(self, x):
            b, t, d = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).unbind(2)
            scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / (d // self.heads) ** 0.5
            mixed = torch.matmul(scores.softmax(-1), v.transpose(1, 2).to(scores.dtype))
            return self.out(mixed.transpose(1, 2).view(b, t, d))

    class Forecaster(nn.Module):
        def __init__(self, channels=5, width=32, ahead=6):
            super().__init__()
            self.embed = nn.Linear(channels, width)
            self.attention, self.norm = Attention(width, 4), nn.LayerNorm(width)
            self.head = nn.Linear(width, ahead)

        def forward(self, x):
            x = self.embed(x)
            return self.head(self.norm(x + self.attention(x))[:, -1])

    return Forecaster(), (torch.randn(8, 24, 5), torch.randn(8, 6)), F.mse_loss


def tastes_of_listeners():
    class Factors(nn.Module):
        def __init__(self, listeners, songs, width=16):
            super().__init__()
            self.listener = nn.Embedding(listeners, width)
            self.song = nn.Embedding(songs, width, padding_idx=0)
            self.bias = nn.Embedding(songs, 1)

        def forward(self, listener, history, song):
            seen = (history != 0).float()[..., None]
            recent = (self.song(history) * seen).sum(1) / seen.sum(1).clamp(min=1)
            taste = self.listener(listener) + recent
            return (taste * self.song(song)).sum(-1) + self.bias(song).squeeze(-1)

    def loss(model, batch):
        liked = model(batch["listener"], batch["history"], batch["liked"])
        other = model(batch["listener"], batch["history"], batch["other"])
        return -F.logsigmoid(liked - other).mean()

    songs = [f"song-{i}" for i in range(50)]
    number = {name: i + 1 for i, name in enumerate(songs)}  # 0 is the padding
    history = torch.randint(1, len(songs), (6, 5))
    history[1, 3:] = 0
    batch = {
        "listener": torch.randint(0, 10, (6,)),
        "history": history,
        "liked": torch.tensor([number[s] for s in (*songs[:5], songs[-1])]),
        "other": torch.randint(1, len(songs), (6,)),
    }
    return Factors(10, len(songs)), batch, loss


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
    rows = []
    for length in (7, 4, 6, 5, 7, 7, 3, 6):
        labels = torch.randint(2, 64, (7,))
        labels[length:] = -100
        rows.append({"input_ids": torch.randint(2, 64, (10,)), "labels": labels})
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        label_smoothing_factor=0.1,
        max_steps=200,
        report_to=[],
        use_cpu=True,
    )
    return Trainer(model=model, args=arguments, train_dataset=rows)
