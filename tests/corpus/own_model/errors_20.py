"""Errors around states, decoders, distributions and numbers of items."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration


def _gpt():
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=60, n_positions=32, n_embd=32, n_layer=1, n_head=2)
    )


def state_between_batches():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(5, 16, batch_first=True)
            self.head = nn.Linear(16, 1)
            self.state = None

        def forward(self, x, y):
            out, self.state = self.rnn(x, self.state)
            return F.mse_loss(self.head(out[:, -1]).squeeze(-1), y)

    return Net(), (torch.randn(6, 12, 5), torch.randn(6))


def running_baseline():
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    baseline = [torch.zeros(())]

    def loss(model, batch):
        x, a, r = batch
        logp = model(x).float().log_softmax(-1).gather(1, a[:, None]).squeeze(1)
        baseline[0] = 0.9 * baseline[0] + 0.1 * (r * logp).mean()
        return -((r - baseline[0]) * logp).mean()

    return model, (torch.randn(16, 6), torch.randint(0, 3, (16,)), torch.randn(16)), loss


def teacher_with_graph():
    teacher = nn.Linear(8, 4)
    student = nn.Linear(8, 4)
    x = torch.randn(12, 8)
    soft = teacher(x).softmax(-1)

    def loss(model, batch):
        return F.kl_div(model(batch).float().log_softmax(-1), soft, reduction="batchmean")

    return student, x, loss


def t5_without_labels():
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
    ids = torch.randint(1, 64, (4, 9))
    labels = torch.randint(1, 64, (4, 5))

    def loss(model, batch):
        logits = model(input_ids=batch["input_ids"]).logits
        return F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())

    return model, {"input_ids": ids, "labels": labels}, loss


def gpt_with_both():
    model = _gpt()
    ids = torch.randint(0, 60, (2, 8))

    def loss(model, batch):
        e = model.transformer.wte(batch["ids"])
        return model(input_ids=batch["ids"], inputs_embeds=e, labels=batch["ids"]).loss

    return model, {"ids": ids}, loss


def categorical_from_logits():
    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(6, 4)

        def forward(self, x, a, r):
            return -(
                torch.distributions.Categorical(probs=self.net(x).float()).log_prob(a) * r
            ).mean()

    return Policy(), (torch.randn(16, 6), torch.randint(0, 4, (16,)), torch.randn(16))


def bernoulli_from_logits():
    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(6, 1)

        def forward(self, x, a):
            return (
                -torch.distributions.Bernoulli(self.net(x).float().squeeze(-1)).log_prob(a).mean()
            )

    return Policy(), (torch.randn(16, 6), torch.randint(0, 2, (16,)).float())


def beta_outside():
    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(6, 2)

        def forward(self, x, a):
            p = F.softplus(self.net(x).float()) + 1.0
            return -torch.distributions.Beta(p[:, 0], p[:, 1]).log_prob(a).mean()

    return Policy(), (torch.randn(16, 6), torch.randn(16))


def actions_from_one():
    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(6, 4)

        def forward(self, x, a):
            return -torch.distributions.Categorical(logits=self.net(x).float()).log_prob(a).mean()

    return Policy(), (
        torch.randn(16, 6),
        torch.randint(1, 5, (16,)).clamp(max=4).index_fill(0, torch.tensor([0]), 4),
    )


def image_tokens_first():
    class Captioner(nn.Module):
        def __init__(self):
            super().__init__()
            self.eye = nn.Linear(10, 32)
            self.lm = _gpt()

        def forward(self, image, ids):
            e = torch.cat([self.eye(image), self.lm.transformer.wte(ids)], 1)
            logits = self.lm(inputs_embeds=e).logits.float()
            return F.cross_entropy(logits.flatten(0, 1), ids.flatten())

    return Captioner(), (torch.randn(3, 4, 10), torch.randint(0, 60, (3, 9)))


def items_from_one():
    class Bias(nn.Module):
        def __init__(self):
            super().__init__()
            self.user = nn.Embedding(20, 8)
            self.item = nn.Embedding(30, 8)

        def forward(self, u, i, y):
            return F.mse_loss((self.user(u) * self.item(i)).sum(-1).float(), y)

    i = torch.randint(1, 31, (16,))
    i[3] = 30
    return Bias(), (torch.randint(0, 20, (16,)), i, torch.randn(16))


def words_of_another_tokenizer():
    model = _gpt()
    ids = torch.randint(0, 60, (3, 9))
    ids[0, 2] = 71
    ids[2, 1] = 66
    return model, {"input_ids": ids, "labels": ids}


def packed_on_lengths():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(4, 8, batch_first=True)
            self.head = nn.Linear(8, 2)

        def forward(self, x, n, y):
            _, h = self.rnn(pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False))
            return F.cross_entropy(self.head(h[-1]).float(), y)

    return Net(), (torch.randn(4, 9, 4), torch.tensor([3, 0, 9, 5]), torch.randint(0, 2, (4,)))
