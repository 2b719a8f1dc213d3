"""Factories for the trials of own models. `healthy_` in a name: nothing may be named. The others
have the fault of their name, finite numbers, and gradients in every parameter."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


def _classes(width=8, count=6, classes=3):
    return torch.randn(count, width), torch.randint(classes, (count,))


class _Own(nn.Module):
    """A module whose forward pass is a function of it."""

    def __init__(self, forward, **parts):
        super().__init__()
        self._run = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args):
        return self._run(self, *args)


def _trained(forward, batch, loss=None, **parts):
    loss = loss or (lambda m, b: F.cross_entropy(m(b[0]), b[1]))
    return _Own(forward, **parts), batch, loss


def softmax_over_the_batch():
    loss = lambda m, b: F.nll_loss((m(b[0]) + 1e-6).log(), b[1])
    return _trained(lambda m, x: m.a(x).softmax(0), _classes(), loss, a=nn.Linear(8, 3))


def log_softmax_over_the_batch():
    loss = lambda m, b: F.nll_loss(m(b[0]), b[1])
    return _trained(lambda m, x: F.log_softmax(m.a(x), dim=0), _classes(), loss, a=nn.Linear(8, 3))


def lstm_without_batch_first():
    batch = torch.randn(6, 5, 8), torch.randint(3, (6,))
    return _trained(lambda m, x: m.b(m.a(x)[0][:, -1]), batch, a=nn.LSTM(8, 8), b=nn.Linear(8, 3))


def _attending_with_the_time_first(axis):
    def run(m, x):
        states = m.a(x.transpose(0, 1))[0]
        return m.c((m.b(states).softmax(axis) * states).sum(0))

    batch = torch.randn(6, 5, 8), torch.randint(3, (6,))
    return _trained(run, batch, a=nn.LSTM(8, 8), b=nn.Linear(8, 1), c=nn.Linear(8, 3))


def softmax_over_samples_in_the_second_place():
    return _attending_with_the_time_first(1)


def healthy_softmax_over_time_in_the_first_place():
    return _attending_with_the_time_first(0)


def gru_without_batch_first():
    batch = torch.randn(6, 5, 8), torch.randint(3, (6,))
    return _trained(lambda m, x: m.b(m.a(x)[0].mean(1)), batch, a=nn.GRU(8, 8), b=nn.Linear(8, 3))


def attention_without_batch_first():
    batch = torch.randn(6, 5, 8), torch.randint(3, (6,))
    run = lambda m, x: m.b(m.a(x, x, x)[0].mean(1))
    return _trained(run, batch, a=nn.MultiheadAttention(8, 2), b=nn.Linear(8, 3))


def encoder_without_batch_first():
    batch = torch.randn(6, 5, 8), torch.randint(3, (6,))
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    return _trained(lambda m, x: m.b(m.a(x).mean(1)), batch, a=layer, b=nn.Linear(8, 3))


def _tokens(count=4, length=9):
    whole = torch.randint(16, (count, length + 1))
    return whole[:, :-1].contiguous(), whole[:, 1:].contiguous()


def _language(forward, **parts):
    loss = lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten())
    parts = {"e": nn.Embedding(16, 8), "h": nn.Linear(8, 16)} | parts
    return _trained(forward, _tokens(), loss, **parts)


def _attend(x, **options):
    return F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], **options)[:, 0]


def attention_without_a_causal_mask():
    return _language(lambda m, x: m.h(_attend(m.e(x))))


def multihead_without_a_causal_mask():
    run = lambda m, x: m.h(m.a(*[m.e(x)] * 3)[0])
    return _language(run, a=nn.MultiheadAttention(8, 2, batch_first=True))


def encoder_layer_without_a_causal_mask():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return _language(lambda m, x: m.h(m.a(m.e(x))), a=layer)


def broadcast_by_hand():
    batch = torch.randn(6, 8), torch.randn(6)
    return _trained(lambda m, x: m.a(x), batch, lambda m, b: ((m(b[0]) - b[1]) ** 2).mean(),
                    a=nn.Linear(8, 1))  # fmt: skip


def broadcast_target_first():
    batch = torch.randn(6, 8), torch.randn(6)
    return _trained(lambda m, x: m.a(x), batch, lambda m, b: (b[1] - m(b[0])).abs().mean(),
                    a=nn.Linear(8, 1))  # fmt: skip


def healthy_softmax_over_classes():
    return _trained(lambda m, x: m.a(x), _classes(), a=nn.Linear(8, 3))


def healthy_time_first():
    batch = torch.randn(5, 6, 8), torch.randint(3, (6,))
    return _trained(lambda m, x: m.b(m.a(x)[0][-1]), batch, a=nn.LSTM(8, 8), b=nn.Linear(8, 3))


def healthy_series_with_labels_of_steps():
    batch = torch.randn(7, 4, 8), torch.randint(3, (7, 4))
    loss = lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten())
    return _trained(lambda m, x: m.b(m.a(x)[0]), batch, loss, a=nn.GRU(8, 8), b=nn.Linear(8, 3))


def healthy_series_of_two_tracks():
    batch = torch.randn(9, 2, 8), torch.randn(9, 1)
    loss = lambda m, b: F.mse_loss(m(b[0]), b[1])
    run = lambda m, x: m.b(m.a(x)[0].flatten(1))
    return _trained(run, batch, loss, a=nn.GRU(8, 8), b=nn.Linear(16, 1))


def healthy_stations_of_one_series():
    batch = torch.randn(9, 5, 8), torch.randn(9, 1)  # the last station is the target
    loss = lambda m, b: F.mse_loss(m(b[0]), b[1])
    run = lambda m, x: m.b(m.a(x)[0][:, -1])
    return _trained(run, batch, loss, a=nn.LSTM(8, 8), b=nn.Linear(8, 1))


def healthy_turns_of_one_dialog():
    batch = torch.randn(6, 5, 8), torch.randint(3, (6,))
    run = lambda m, x: m.c(m.b(m.a(x)[1][-1].unsqueeze(1))[0].squeeze(1))
    words = nn.GRU(8, 8, batch_first=True)
    return _trained(run, batch, a=words, b=nn.GRU(8, 8), c=nn.Linear(8, 3))


def healthy_transposed():
    batch = torch.randn(6, 5, 8), torch.randint(3, (6,))
    run = lambda m, x: m.b(m.a(x.transpose(0, 1))[0][-1])
    return _trained(run, batch, a=nn.LSTM(8, 8), b=nn.Linear(8, 3))


def healthy_batch_norm():
    run = lambda m, x: m.b(m.n(m.a(x)))
    return _trained(run, _classes(), a=nn.Linear(8, 8), n=nn.BatchNorm1d(8), b=nn.Linear(8, 3))


def healthy_contrastive():
    loss = lambda m, b: F.cross_entropy(m(b[0]), torch.arange(len(b[0])))
    run = lambda m, x: F.normalize(m.a(x), dim=-1) @ F.normalize(m.b(x), dim=-1).t() * 5
    return _trained(run, (torch.randn(6, 8),), loss, a=nn.Linear(8, 4), b=nn.Linear(8, 4))


def healthy_graph():
    batch = torch.randn(6, 8), torch.randint(3, (6,))
    edges = torch.eye(6).roll(1, 0) + torch.eye(6)
    return _trained(lambda m, x: edges @ m.a(x), batch, a=nn.Linear(8, 3))


def healthy_attention_pooling_over_samples_of_a_bag():
    batch = torch.randn(6, 8), torch.zeros(1, dtype=torch.long)
    run = lambda m, x: (m.s(x).softmax(0) * m.a(x)).sum(0, keepdim=True)
    return _trained(run, batch, a=nn.Linear(8, 3), s=nn.Linear(8, 1))


def healthy_causal():
    return _language(lambda m, x: m.h(_attend(m.e(x), is_causal=True)))


def healthy_masked():
    mask = torch.ones(9, 9, dtype=torch.bool).tril()
    return _language(lambda m, x: m.h(_attend(m.e(x), attn_mask=mask)))


def healthy_group_norm_over_time():
    run = lambda m, x: m.h(m.n(m.e(x).transpose(1, 2)).transpose(1, 2))
    return _language(run, n=nn.GroupNorm(2, 8))


def healthy_masked_language_model():
    def batch():
        whole = torch.randint(1, 16, (4, 9))
        return whole.masked_fill(torch.rand(4, 9) < 0.3, 0), whole

    loss = lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten())
    run = lambda m, x: m.h(_attend(m.e(x)))
    return _trained(run, batch(), loss, e=nn.Embedding(16, 8), h=nn.Linear(8, 16))


def healthy_pairwise():
    batch = torch.randn(6, 8), torch.randn(6)

    def loss(m, b):
        score = m(b[0])
        return F.softplus(-(score - score.t()) * (b[1][:, None] - b[1]).sign()).mean()

    return _trained(lambda m, x: m.a(x), batch, loss, a=nn.Linear(8, 1))


def healthy_crps():
    batch = torch.randn(6, 8), torch.randn(6)
    loss = lambda m, b: (m(b[0]) - b[1][:, None]).abs().mean()
    return _trained(lambda m, x: m.a(x), batch, loss, a=nn.Linear(8, 1))


def healthy_ensemble():
    batch = torch.randn(6, 8), torch.randn(6)
    loss = lambda m, b: ((m(b[0]) - b[1].unsqueeze(-1)) ** 2).mean()
    return _trained(lambda m, x: m.a(x), batch, loss, a=nn.Linear(8, 5))


def healthy_counts_its_calls():
    calls = []

    def run(m, x):
        calls.append(len(calls))
        assert len(calls) < 60
        return m.a(x)

    return _trained(run, _classes(), a=nn.Linear(8, 3))


def _shifted(forward, **parts):
    """The loss takes its labels from the tokens."""
    loss = lambda m, ids: F.cross_entropy(m(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    parts = {"e": nn.Embedding(16, 8), "h": nn.Linear(8, 16)} | parts
    return _trained(forward, torch.randint(16, (4, 9)), loss, **parts)


def shifted_without_a_causal_mask():
    return _shifted(lambda m, x: m.h(_attend(m.e(x))))


def shortened_without_a_causal_mask():
    loss = lambda m, ids: F.cross_entropy(m(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    run = lambda m, x: m.h(_attend(m.e(x)))
    parts = {"e": nn.Embedding(16, 8), "h": nn.Linear(8, 16)}
    return _trained(run, torch.randint(16, (4, 9)), loss, **parts)


def healthy_shifted():
    return _shifted(lambda m, x: m.h(_attend(m.e(x), is_causal=True)))


def healthy_classes_of_texts():
    loss = lambda m, ids: F.cross_entropy(m(ids).mean(1), ids[:, 0])
    parts = {"e": nn.Embedding(16, 8), "h": nn.Linear(8, 16)}
    run = lambda m, x: m.h(_attend(m.e(x)))
    return _trained(run, torch.randint(16, (4, 9)), loss, **parts)


def healthy_capacity_of_experts():
    def run(m, x):
        weight, chosen = m.r(x).softmax(-1).max(-1)
        outs = []
        for expert in range(2):
            rows = (chosen == expert).nonzero()[:2, 0]  # an expert takes two samples at most
            outs.append(torch.zeros_like(x).index_copy(0, rows, m.a(x[rows])))
        return m.b(x + weight[:, None] * sum(outs))

    parts = {"r": nn.Linear(8, 2), "a": nn.Linear(8, 8), "b": nn.Linear(8, 3)}
    return _trained(run, _classes(), **parts)


def healthy_scale_of_the_whole_tensor():
    def run(m, x):
        scale = x.detach().abs().max() / 7
        return m.a(x + ((x / scale).round() * scale - x).detach())

    return _trained(run, _classes(), a=nn.Linear(8, 3))


def healthy_experts_choose_tokens():
    def run(m, x):
        hidden = m.e(x)
        weight, chosen = m.r(hidden).softmax(1).topk(4, 1)  # [samples, 4 tokens, 2 experts]
        out = hidden
        for expert in range(2):
            at = chosen[:, :, expert, None].expand(-1, -1, 8)
            out = out.scatter_add(1, at, m.a(hidden.gather(1, at)) * weight[:, :, expert, None])
        return m.h(out)

    return _language(run, r=nn.Linear(8, 2), a=nn.Linear(8, 8))


class _Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x, slope)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        x, slope = ctx.saved_tensors
        return gradient / (1 + slope * x.abs()) ** 2, None


def healthy_spikes():
    run = lambda m, x: m.b(_Spike.apply(m.a(x), torch.full((6, 8), 10.0)))
    return _trained(run, _classes(), a=nn.Linear(8, 8), b=nn.Linear(8, 3))


class _Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, other):
        return x + other

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-0.01, 0.01), gradient.clamp(-0.01, 0.01)


def healthy_clipped_gradients():
    run = lambda m, x: _Clipped.apply(m.a(x), m.b(x))
    return _trained(run, _classes(), a=nn.Linear(8, 3), b=nn.Linear(8, 3))


def mask_in_the_wrong_direction():
    blocked = torch.ones(9, 9, dtype=torch.bool).tril(-1)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return _language(lambda m, x: m.h(m.a(m.e(x), src_mask=blocked)), a=layer)


class _Heads(nn.Module):
    def __init__(self, back):
        super().__init__()
        self.q, self.v, self.back = nn.Linear(8, 8), nn.Linear(8, 8), back

    def forward(self, x):
        q, v = (part(x).view(*x.shape[:2], 2, 4).transpose(1, 2) for part in (self.q, self.v))
        y = F.scaled_dot_product_attention(q, q, v, is_causal=True)
        return (y.transpose(1, 2) if self.back else y).reshape(x.shape)


def heads_merged_in_the_wrong_order():
    return _language(lambda m, x: m.h(m.a(m.e(x))), a=_Heads(back=False))


def healthy_heads():
    return _language(lambda m, x: m.h(m.a(m.e(x))), a=_Heads(back=True))


def convolution_that_sees_the_next_token():
    run = lambda m, x: m.h(m.c(m.e(x).transpose(1, 2)).transpose(1, 2))
    return _language(run, c=nn.Conv1d(8, 8, 3, padding=1))


def healthy_causal_convolution():
    run = lambda m, x: m.h(m.c(F.pad(m.e(x).transpose(1, 2), (2, 0))).transpose(1, 2))
    return _language(run, c=nn.Conv1d(8, 8, 3))


def softmax_of_a_pool_over_the_batch():
    run = lambda m, x: m.a((m.s(x).softmax(0) * x).sum(1))
    batch = torch.randn(6, 5, 8), torch.randint(3, (6,))
    return _trained(run, batch, a=nn.Linear(8, 3), s=nn.Linear(8, 1))


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0]


def backward_without_its_gradient():
    run = lambda m, x: m.b(_Square.apply(m.a(x)))
    return _trained(run, _classes(), a=nn.Linear(8, 8), b=nn.Linear(8, 3))


class _Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -0.1 * gradient


def healthy_reversed_gradients():
    run = lambda m, x: m.b(_Reversed.apply(m.a(x)))
    return _trained(run, _classes(), a=nn.Linear(8, 8), b=nn.Linear(8, 3))


class _Balanced(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, balance):
        ctx.save_for_backward(x, balance)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient, torch.ones_like(ctx.saved_tensors[1])


def healthy_gradient_of_an_auxiliary_loss():
    def run(m, x):
        gates = m.g(x).softmax(-1)
        return m.b(_Balanced.apply(m.a(x) * gates, 0.01 * gates.square().sum()))

    return _trained(run, _classes(), a=nn.Linear(8, 4), b=nn.Linear(4, 3), g=nn.Linear(8, 4))


class _Sparse(_Balanced):
    @staticmethod
    def backward(ctx, gradient):
        return gradient + 0.01 * ctx.saved_tensors[0].sign(), None


def healthy_gradient_of_a_penalty():
    run = lambda m, x: m.b(_Sparse.apply(m.a(x), x.new_ones(())))
    return _trained(run, _classes(), a=nn.Linear(8, 8), b=nn.Linear(8, 3))


class _Lost(_Balanced):
    @staticmethod
    def backward(ctx, gradient):
        return ctx.saved_tensors[0], None


def identity_without_its_gradient():
    run = lambda m, x: m.b(_Lost.apply(m.a(x), x.new_ones(())))
    return _trained(run, _classes(), a=nn.Linear(8, 8), b=nn.Linear(8, 3))


def view_that_exchanges_axes():
    run = lambda m, x: m.b(m.a(x.view(x.shape[1], len(x), 8))[0][-1])
    batch = torch.randn(6, 5, 8), torch.randint(3, (6,))
    return _trained(run, batch, a=nn.GRU(8, 8), b=nn.Linear(8, 3))


def _frames(view, first=False):
    """Clips [6, 5 frames, 8], whose frames are encoded as 30 rows."""
    batch = torch.randn(6, 5, 8), torch.randint(3, (6,))
    parts = {"a": nn.Linear(8, 8), "r": nn.GRU(8, 8, batch_first=first), "b": nn.Linear(8, 3)}
    return _trained(lambda m, x: m.b(view(m, x)), batch, **parts)


def rows_joined_and_viewed_the_other_way():
    return _frames(lambda m, x: m.r(m.a(x.flatten(0, 1)).view(5, len(x), -1))[0][-1])


def rows_joined_by_a_view_and_taken_apart_wrongly():
    return _frames(lambda m, x: m.a(x.reshape(-1, 8)).relu().reshape(5, len(x), 8).mean(0))


def healthy_rows_joined_and_taken_apart():
    return _frames(
        lambda m, x: m.r(m.a(x.flatten(0, 1)).view(len(x), 5, -1).transpose(0, 1))[0][-1]
    )


def healthy_rows_joined_with_the_time_first():
    def run(m, x):
        joined = m.a(x.transpose(0, 1).flatten(0, 1))
        return m.r(joined.view(5, len(x), -1))[0][-1]

    return _frames(run)


def healthy_rows_taken_apart_in_their_order():
    return _frames(lambda m, x: m.r(m.a(x.flatten(0, 1)).view(len(x), 5, -1))[0][:, -1], first=True)


def healthy_pairs_of_views_of_samples():
    """Contrastive: no sample has a label of its own."""

    def loss(m, b):
        z = F.normalize(m(b[0].flatten(0, 1)), dim=-1).view(2, len(b[0]), -1)
        return F.cross_entropy(z[0] @ z[1].t() * 5, torch.arange(len(b[0])))

    return _trained(lambda m, x: m.a(x), (torch.randn(6, 2, 8),), loss, a=nn.Linear(8, 4))


def dropout_in_evaluation():
    run = lambda m, x: m.b(F.dropout(m.a(x), 0.3))
    return _trained(run, _classes(), a=nn.Linear(8, 8), b=nn.Linear(8, 3))


def dropout_of_attention_in_evaluation():
    def run(m, x):
        x = m.a(x)
        return m.b(F.scaled_dot_product_attention(x, x, x, dropout_p=0.1).mean(1))

    batch = torch.randn(6, 5, 8), torch.randint(3, (6,))
    return _trained(run, batch, a=nn.Linear(8, 8), b=nn.Linear(8, 3))


def dropout_that_is_in_no_module():
    held = [nn.Dropout(0.2)]
    run = lambda m, x: m.b(held[0](m.a(x)))
    return _trained(run, _classes(), a=nn.Linear(8, 8), b=nn.Linear(8, 3))


def healthy_monte_carlo_dropout():
    run = lambda m, x: m.b(F.dropout(m.a(x), 0.3, training=True))
    return _trained(run, _classes(), a=nn.Linear(8, 8), b=nn.Linear(8, 3))


def healthy_dropout():
    def run(m, x):
        x = F.dropout(m.d(m.a(x)), 0.3, training=m.training)
        share = 0.1 if m.training else 0.0
        return m.b(x + F.scaled_dot_product_attention(x, x, x, dropout_p=share))

    return _trained(run, _classes(), a=nn.Linear(8, 8), b=nn.Linear(8, 3), d=nn.Dropout(0.2))


def healthy_noise_in_evaluation():
    def run(m, x):
        mean, spread = m.a(x).chunk(2, -1)
        return m.b(mean + spread.exp() * torch.randn_like(mean))

    return _trained(run, _classes(), a=nn.Linear(8, 16), b=nn.Linear(8, 3))


class _Scaled(nn.Module):
    def __init__(self, guarded, persistent=True):
        super().__init__()
        self.a, self.guarded = nn.Linear(8, 3), guarded
        self.register_buffer("mean", torch.zeros(8), persistent=persistent)
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        self.calls += 1
        if self.training or not self.guarded:
            with torch.no_grad():
                self.mean.lerp_(x.mean(0), 0.1)
        return self.a(x - self.mean)


def _with(model):
    return model, _classes(), lambda m, b: F.cross_entropy(m(b[0]), b[1])


def buffer_that_evaluation_moves():
    return _with(_Scaled(guarded=False))


class _Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 4), nn.Linear(8, 4).requires_grad_(False)
        self.register_buffer("centre", torch.zeros(4))

    def forward(self, x):
        with torch.no_grad():
            target = (self.b(x) - self.centre).softmax(-1)
            self.centre.lerp_(self.b(x).mean(0), 0.1)
        return -(target * self.a(x).log_softmax(-1)).sum(-1).mean()


def healthy_centre_of_targets():
    return _Centred(), torch.randn(6, 8), lambda m, b: m(b)


def healthy_buffer_of_training():
    return _with(_Scaled(guarded=True))


def healthy_state_that_is_not_saved():
    return _with(_Scaled(guarded=False, persistent=False))


class _Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 3)
        self.register_buffer("table", torch.zeros(0))

    def forward(self, x):
        self.table = torch.arange(len(x)).float()
        return self.a(x)


def healthy_cache():
    return _with(_Cached())


def _pictures(count=6):
    return torch.randn(count, 3, count, count), torch.randint(3, (count,))


def _noisy(level):
    run = lambda m, x: m.h(m.c(level(torch.rand(len(x))) * x).mean((2, 3)))
    return _trained(run, _pictures(), c=nn.Conv2d(3, 4, 1), h=nn.Linear(4, 3))


def values_of_samples_on_another_dimension():
    return _noisy(lambda level: level)


def healthy_values_of_samples():
    return _noisy(lambda level: level[:, None, None, None])


def _placed(rows):
    batch = torch.randn(6, 5, 8), torch.randint(3, (6,))
    table = nn.Parameter(torch.randn(6, 1, 8))
    run = lambda m, x: m.h((x + rows(m.table, x)).mean(1))
    return _trained(run, batch, table=table, h=nn.Linear(8, 3))


def positions_by_the_place_in_the_batch():
    return _placed(lambda table, x: table[: x.size(0)])


def healthy_positions():
    return _placed(lambda table, x: table[: x.size(1)].transpose(0, 1))


def healthy_positions_of_steps_that_come_first():
    """[length 6, samples 5]: a label for each token, and no layer that states the order."""
    table = nn.Parameter(torch.randn(9, 1, 8))
    batch = torch.randn(6, 5, 8), torch.randint(3, (6, 5))
    run = lambda m, x: m.h(x + m.table[: len(x)]).transpose(1, 2)
    return _trained(run, batch, table=table, h=nn.Linear(8, 3))


def healthy_rows_that_are_expanded():
    return _placed(lambda table, x: table[:1].expand(len(x), -1, -1))


def broadcast_of_a_distribution():
    def loss(m, b):
        return -torch.distributions.Normal(m(b[0]), 1.0).log_prob(b[1] * 2).mean()

    return _trained(
        lambda m, x: m.a(x), (torch.randn(6, 8), torch.randn(6)), loss, a=nn.Linear(8, 1)
    )


def view_of_pictures_with_channels_last():
    batch = torch.randn(4, 6, 9, 3), torch.randint(3, (4,))
    run = lambda m, x: m.h(m.c(x.view(4, 3, 6, 9)).mean((2, 3)))
    return _trained(run, batch, c=nn.Conv2d(3, 4, 1), h=nn.Linear(4, 3))


def heads_split_by_a_view():
    batch = torch.randn(4, 9, 8), torch.randint(3, (4,))
    return _trained(
        lambda m, x: m.h(_attend_heads(x.reshape(4, 2, 9, 4))), batch, h=nn.Linear(8, 3)
    )


def _attend_heads(x):
    return F.scaled_dot_product_attention(x, x, x).transpose(1, 2).flatten(2).mean(1)


def healthy_shift_of_relative_positions():
    def run(m, x):
        scores = F.pad(m.a(x) @ x.transpose(1, 2), (1, 0)).view(4, 10, 9)[:, 1:]
        return m.h((scores.softmax(-1) @ x).mean(1))

    batch = torch.randn(4, 9, 8), torch.randint(3, (4,))
    return _trained(run, batch, a=nn.Linear(8, 8), h=nn.Linear(8, 3))


def _weighted(dim, keys=9):
    def run(m, x):
        scores = m.a(x) @ x[:, :keys].transpose(1, 2)
        return m.h((scores.softmax(dim) @ x[:, :keys]).relu().mean(1))

    batch = torch.randn(4, 9, 8), torch.randint(3, (4,))
    return _trained(run, batch, a=nn.Linear(8, 8), h=nn.Linear(8, 3))


def attention_normalized_over_queries():
    return _weighted(1)


def healthy_attention_over_keys():
    return _weighted(2)


def healthy_assignment_to_clusters():
    return _weighted(1, keys=5)


def labels_that_are_not_shifted():
    run = lambda m, x: m.h(_attend(m.e(x), is_causal=True))
    model, batch, _ = _language(run)
    return model, (batch[0],), lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[0].flatten())


def healthy_reconstruction_of_tokens():
    model, batch, _ = _language(lambda m, x: m.h(_attend(m.e(x))))
    return model, (batch[0],), lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[0].flatten())


class _Computes(nn.Module):
    """Returns its loss alone, for sources and targets of tokens."""

    def __init__(self, mask):
        super().__init__()
        self.e, self.h, self.mask = nn.Embedding(16, 8), nn.Linear(8, 16), mask
        self.t = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self, source, target):
        inputs, labels = target[:, :-1], target[:, 1:]
        mask = nn.Transformer.generate_square_subsequent_mask(inputs.size(1))
        hidden = self.t(self.e(source), self.e(inputs), tgt_mask=mask if self.mask else None)
        return F.cross_entropy(self.h(hidden).transpose(1, 2), labels)


def decoder_without_a_causal_mask():
    return _Computes(False), {"source": _tokens()[0], "target": _tokens()[0]}


def healthy_decoder():
    return _Computes(True), {"source": _tokens()[0], "target": _tokens()[0]}


def _forecast(both):
    batch = (torch.randn(4, 12, 3).cumsum(1),)
    loss = lambda m, b: F.mse_loss(m(b[0])[:, :-1], b[0][:, 1:])
    parts = {
        "a": nn.GRU(3, 4, batch_first=True, bidirectional=both),
        "h": nn.Linear(4 + 4 * both, 3),
    }
    return _trained(lambda m, x: m.h(m.a(x)[0]), batch, loss, **parts)


def forecast_that_sees_what_follows():
    return _forecast(True)


def healthy_forecast():
    return _forecast(False)


def _window(statistics):
    """Series of 24 values, of which the last 8 are predicted from the others."""
    series = torch.randn(5, 24).cumsum(1)

    def forward(m, x):
        mean, deviation = statistics(x)
        return m.a(((x - mean) / deviation)[:, :16]) * deviation + mean

    loss = lambda m, b: F.l1_loss(m(b), b[:, 16:])
    return _trained(forward, series, loss, a=nn.Linear(16, 8))


def _of(part):
    return part.mean(1, keepdim=True), part.std(1, keepdim=True) + 1e-5


def forecast_normalized_by_its_future():
    return _window(_of)


def healthy_forecast_normalized_by_its_past():
    return _window(lambda x: _of(x[:, :16]))


def _with_label_length(hidden):
    """The last 6 of 10 values of y are predicted, of the last feature; the decoder gets the first
    4 of them."""

    def forward(m, x, y):
        known = torch.cat([y[:, :4], torch.zeros_like(y[:, 4:])], 1) if hidden else y
        return (m.a(x).mean(1, keepdim=True) + m.b(known))[:, -6:]

    batch = torch.randn(4, 12, 3), torch.randn(4, 10, 3)
    loss = lambda m, b: F.mse_loss(m(*b), b[1][:, -6:, -1:])
    return _trained(forward, batch, loss, a=nn.Linear(3, 1), b=nn.Linear(3, 1))


def decoder_that_gets_its_labels():
    return _with_label_length(False)


def healthy_decoder_that_starts_with_known_values():
    return _with_label_length(True)


def _neighbors(offset):
    """Points [4, 9, 3], each with its 3 nearest ones, in rows of [36, 3]."""

    def forward(m, x):
        near = torch.cdist(x, x).topk(3, largest=False).indices
        near = near + torch.arange(len(x))[:, None, None] * offset
        rows = x.reshape(-1, 3)[near.flatten()].view(*near.shape, 3)
        return m.a(rows.flatten(2)).amax(1)

    batch = torch.randn(4, 9, 3), torch.randint(5, (4,))
    return _trained(forward, batch, a=nn.Linear(9, 5))


def neighbors_with_the_offset_of_samples():
    return _neighbors(3)


def nodes_without_an_offset():
    return _neighbors(0)


def healthy_neighbors():
    return _neighbors(9)


def _routed(best, scaled):
    def forward(m, x):
        chosen, index = m.router(x).softmax(-1).topk(best, -1)
        chosen = chosen / (chosen.sum(-1, keepdim=True) + 1e-9) if scaled else chosen
        parts = torch.stack([m.one(x), m.two(x), m.three(x)], 1)
        picked = parts.gather(1, index[..., None].expand(-1, -1, 8))
        return m.head((picked * chosen[..., None]).sum(1))

    layers = {name: nn.Linear(8, 8) for name in ("one", "two", "three")}
    router, head = nn.Linear(8, 3, bias=False), nn.Linear(8, 3)
    return _trained(forward, _classes(count=24), router=router, head=head, **layers)


def router_of_one_expert():
    return _routed(1, True)


def healthy_router_of_two_experts():
    return _routed(2, True)


def healthy_router_that_keeps_its_probability():
    return _routed(1, False)


def weights_divided_by_their_sum():
    """The weight of a feature over the features, which is summed over the features again."""
    forward = lambda m, x: m.b(x) * m.a(x).softmax(-1).sum(-1, keepdim=True)
    return _trained(forward, _classes(), a=nn.Linear(8, 4), b=nn.Linear(8, 3))


def healthy_branch_that_starts_small():
    """LayerScale of 1e-6, a bias before a norm, and keys with a bias."""

    def forward(m, x):
        queries, keys = m.q(x), m.k(x)
        mixed = (queries @ keys.transpose(-2, -1)).softmax(-1) @ m.norm(x + m.bias)
        return m.head((x + 1e-6 * m.branch(mixed)).mean(1))

    batch = torch.randn(6, 5, 8), torch.randint(3, (6,))
    parts = {name: nn.Linear(8, 8) for name in ("q", "k", "branch")}
    parts["bias"] = nn.Parameter(torch.zeros(1))
    return _trained(forward, batch, norm=nn.LayerNorm(8), head=nn.Linear(8, 3), **parts)


def _penalized(factor):
    def loss(m, b):
        return F.cross_entropy(m(b[0]), b[1]) + factor * sum(w.pow(2).sum() for w in m.parameters())

    return _trained(lambda m, x: m.a(x), _classes(32, 8), loss, a=nn.Linear(32, 3))


def penalty_of_all_weights():
    return _penalized(1000.0)


def healthy_penalty_of_all_weights():
    return _penalized(1e-2)


def healthy_constant_in_the_loss():
    loss = lambda m, b: F.cross_entropy(m(b[0]), b[1]) + 1000.0
    return _trained(lambda m, x: m.a(x), _classes(), loss, a=nn.Linear(8, 3))


def view_taken_for_patches():
    batch = torch.randn(6, 3, 16, 16), torch.randint(3, (6,))
    run = lambda m, x: m.a(x.reshape(6, 4, 192)).mean(1)
    return _trained(run, batch, lambda m, b: F.cross_entropy(m(b[0]), b[1]), a=nn.Linear(192, 3))


def map_viewed_as_tokens():
    batch = torch.randn(6, 3, 16, 16), torch.randint(3, (6,))
    run = lambda m, x: m.b(m.a(x).view(6, 16, 8)).mean(1)
    parts = {"a": nn.Conv2d(3, 8, 4, 4), "b": nn.Linear(8, 3)}
    return _trained(run, batch, lambda m, b: F.cross_entropy(m(b[0]), b[1]), **parts)


def classes_of_a_map_viewed_as_rows():
    batch = torch.randn(6, 3, 8, 8), torch.randint(5, (6, 8, 8))
    loss = lambda m, b: F.cross_entropy(m(b[0]).view(-1, 5), b[1].view(-1))
    return _trained(lambda m, x: m.a(x), batch, loss, a=nn.Conv2d(3, 5, 3, padding=1))


def healthy_rows_of_a_map():
    batch = torch.randn(6, 3, 8, 8), torch.randint(5, (6, 8, 8))
    rows = lambda x: x.permute(0, 2, 3, 1).reshape(-1, 5)
    loss = lambda m, b: F.cross_entropy(rows(m(b[0])), b[1].view(-1))
    return _trained(lambda m, x: m.a(x), batch, loss, a=nn.Conv2d(3, 5, 3, padding=1))


def healthy_patches():
    batch = torch.randn(6, 3, 16, 16), torch.randint(3, (6,))
    cut = lambda x: x.reshape(-1, 3, 2, 8, 2, 8).permute(0, 2, 4, 1, 3, 5).reshape(-1, 4, 192)
    return _trained(lambda m, x: m.a(cut(x)).mean(1), batch, a=nn.Linear(192, 3))


def healthy_weight_norm_of_one_input():
    norm = nn.utils.parametrizations.weight_norm
    return _trained(
        lambda m, x: m.b(m.a(x[:, :1])), _classes(), a=norm(nn.Linear(1, 8)), b=nn.Linear(8, 3)
    )


def map_cut_into_rows():
    batch = torch.randn(6, 3, 12, 12), torch.randint(4, (6, 72))
    run = lambda m, x: F.relu(m.a(x)).reshape(6, -1, 4)
    loss = lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten())
    return _trained(run, batch, loss, a=nn.Conv2d(3, 8, 2, 2))


def healthy_head_with_as_many_values_as_lines():
    batch = torch.randn(6, 3, 16, 16), torch.randint(8, (6, 128))
    run = lambda m, x: m.a(x).permute(0, 2, 3, 1).contiguous().view(6, -1, 8)
    loss = lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten())
    return _trained(run, batch, loss, a=nn.Conv2d(3, 16, 2, 2))


def healthy_channels_of_a_map_in_groups():
    run = lambda m, x: m.b(F.layer_norm(m.a(x).reshape(6, 2, -1), (36,)).flatten(1))
    parts = {"a": nn.Conv2d(3, 8, 4, 4), "b": nn.Linear(72, 3)}
    batch = torch.randn(6, 3, 12, 12), torch.randint(3, (6,))
    return _trained(run, batch, lambda m, b: F.cross_entropy(m(b[0]), b[1]), **parts)


def _shifting(again):
    ids = torch.stack([torch.randperm(16) for _ in range(4)])
    labels = ids.roll(-1, 1).index_fill(1, torch.tensor([15]), -100) if again else ids
    model, _, _ = _language(lambda m, x: m.h(_attend(m.e(x), is_causal=True)))
    loss = lambda m, b: F.cross_entropy(
        m(b["ids"])[:, :-1].flatten(0, 1), b["labels"][:, 1:].flatten()
    )
    return model, {"ids": ids, "labels": labels}, loss


def labels_that_are_shifted_twice():
    return _shifting(again=True)


def healthy_labels_that_the_loss_shifts():
    return _shifting(again=False)


def healthy_two_tokens_ahead_beside_the_next():
    model, batch, _ = _language(lambda m, x: m.h(_attend(m.e(x), is_causal=True)))
    ahead = lambda m, x, n: F.cross_entropy(m(x)[:, :-n].flatten(0, 1), x[:, n:].flatten())
    return model, (batch[0],), lambda m, b: ahead(m, b[0], 2) + ahead(m, b[0], 1)


def _paired(label):
    batch = torch.randn(6, 8), torch.randn(6, 8)
    logits = lambda m, b: m(b[0]) @ m(b[1]).t() / 0.1
    loss = lambda m, b: F.cross_entropy(logits(m, b), label(len(b[0])))
    return _trained(lambda m, x: F.normalize(m.a(x), dim=1), batch, loss, a=nn.Linear(8, 4))


def similarities_with_one_label():
    return _paired(lambda n: torch.zeros(n, dtype=torch.int64))


def healthy_similarities():
    return _paired(torch.arange)


def healthy_prototypes_as_many_as_samples():
    batch = torch.randn(6, 8), torch.zeros(6, dtype=torch.int64)
    parts = {"a": nn.Linear(8, 4), "p": nn.Parameter(torch.randn(6, 4))}
    return _trained(lambda m, x: m.a(x) @ m.p.t(), batch, **parts)


def healthy_tokens_ahead_before_the_next():
    """The last head first, and labels that the data shifted."""
    ids = torch.stack([torch.randperm(16) for _ in range(4)])
    batch = {"ids": ids, "labels": ids.roll(-1, 1).index_fill(1, torch.tensor([15]), -100)}
    model, _, _ = _language(lambda m, x: m.h(_attend(m.e(x), is_causal=True)))
    ahead = lambda m, b, n: F.cross_entropy(
        m(b["ids"])[:, : 16 - n].flatten(0, 1), b["labels"][:, n:].flatten()
    )
    return model, batch, lambda m, b: ahead(m, b, 1) + ahead(m, b, 0)


def healthy_head_two_tokens_ahead_of_a_frozen_model():
    model, batch, loss = _shifting(again=True)
    model.e.requires_grad_(False)
    return model, batch, loss


def healthy_discrete_latents_of_a_map():
    run = lambda m, x: m.b(F.relu(m.a(x)).reshape(6, -1, 4).softmax(-1).flatten(1))
    parts = {"a": nn.Conv2d(3, 8, 2, 2), "b": nn.Linear(288, 3)}
    batch = torch.randn(6, 3, 12, 12), torch.randint(3, (6,))
    return _trained(run, batch, **parts)


def _loader(count=22, size=8, **options):
    labelled = torch.utils.data.TensorDataset(torch.randn(count, 4, 5), torch.arange(count) % 3)
    return torch.utils.data.DataLoader(labelled, batch_size=size, **options)


def last_batch_for_a_view_with_the_batch_size():
    return _trained(lambda m, x: m.a(x.view(8, 20)), _loader(), a=nn.Linear(20, 3))


def _recurrent(m, x):
    out, state = m.a(x, m.state)
    m.state = state.detach()
    return m.b(out[:, -1])


def last_batch_for_the_state_of_the_one_before():
    parts = {"a": nn.GRU(5, 6, batch_first=True), "b": nn.Linear(6, 3), "state": None}
    return _trained(_recurrent, _loader(), **parts)


def last_batch_of_one_sample_in_a_batch_norm():
    body = nn.Sequential(nn.Flatten(), nn.Linear(20, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    return _trained(lambda m, x: m.body(x), _loader(17), body=body)


def healthy_last_batch_that_is_dropped():
    loader = _loader(drop_last=True, shuffle=True)
    return _trained(lambda m, x: m.a(x.view(8, 20)), loader, a=nn.Linear(20, 3))


def healthy_last_batch_as_large_as_the_others():
    return _trained(lambda m, x: m.a(x.view(8, 20)), _loader(24), a=nn.Linear(20, 3))


def healthy_last_batch_of_any_size():
    return _trained(lambda m, x: m.a(x.flatten(1)), _loader(shuffle=True), a=nn.Linear(20, 3))


def healthy_last_batch_of_a_sampler_that_repeats():
    drawn = torch.utils.data.RandomSampler(range(22), replacement=True, num_samples=24)
    loader = _loader(sampler=drawn)
    return _trained(lambda m, x: m.a(x.view(8, 20)), loader, a=nn.Linear(20, 3))


class _Full(torch.utils.data.DataLoader):
    def __iter__(self):
        return (batch for batch in super().__iter__() if len(batch[1]) == self.batch_size)


def healthy_last_batch_that_the_loader_leaves_out():
    loader = _Full(_loader().dataset, batch_size=8)
    return _trained(lambda m, x: m.a(x.view(8, 20)), loader, a=nn.Linear(20, 3))


def _fields(**options):
    """Tokens of fields, whose labels are some of them: [samples, fields]."""
    ids = torch.randint(16, (6, 4))
    labels = torch.where(torch.rand(6, 4) < 0.5, ids, -100)
    loss = lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten())
    run = lambda m, x: m.h((m.a(m.e(x)).flatten(1) @ m.w).view(-1, 4, 8))
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **options)
    parts = {"a": layer, "e": nn.Embedding(16, 8), "h": nn.Linear(8, 16)}
    return _trained(run, (ids, labels), loss, w=nn.Parameter(torch.randn(32, 32) / 6), **parts)


def encoder_of_fields_without_batch_first():
    return _fields()


def healthy_encoder_of_fields():
    return _fields(batch_first=True)


def healthy_attention_over_agents():
    """[agents, steps, values] of one scene: each step attends over the agents."""
    run = lambda m, x: m.c(m.b(*[m.a(x)[0]] * 3)[0])
    batch = torch.randn(6, 5, 8), torch.randn(6, 5, 2)
    parts = {"a": nn.LSTM(8, 8, batch_first=True), "b": nn.MultiheadAttention(8, 2)}
    return _trained(run, batch, lambda m, b: F.mse_loss(m(b[0]), b[1]), c=nn.Linear(8, 2), **parts)


def _time_major(masked):
    def run(m, x):
        mask = nn.Transformer.generate_square_subsequent_mask(len(x)) if masked else None
        return m.h(m.a(m.e(x), src_mask=mask))

    ids = torch.randint(16, (10, 4))
    loss = lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten())
    parts = {"e": nn.Embedding(16, 8), "h": nn.Linear(8, 16)}
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    return _trained(run, (ids[:-1], ids[1:]), loss, a=layer, **parts)


def time_major_without_a_causal_mask():
    return _time_major(False)


def healthy_time_major_with_a_causal_mask():
    return _time_major(True)


def _masked(*axes):
    def run(m, x):
        states = m.e(x)
        scores = states @ states.transpose(1, 2)
        for axis in axes:
            scores = scores.masked_fill((x == 0).unsqueeze(axis), -1e9)
        return m.h(scores.softmax(-1) @ states)[:, 0]

    ids = torch.randint(1, 16, (6, 7))
    ids[:3, 4:] = 0
    return _trained(run, (ids, torch.randint(3, (6,))), e=nn.Embedding(16, 8), h=nn.Linear(8, 3))


def mask_of_the_queries_alone():
    return _masked(2)


def healthy_mask_of_the_keys():
    return _masked(1)


def healthy_masks_of_queries_and_keys():
    return _masked(2, 1)


def healthy_mask_of_queries_beside_one_that_is_added():
    def run(m, x):
        states, pad = m.e(x), x == 0
        scores = states @ states.transpose(1, 2) + pad.unsqueeze(1) * -1e9
        return m.h(scores.masked_fill(pad.unsqueeze(2), -1e9).softmax(-1) @ states)[:, 0]

    ids = torch.randint(1, 16, (6, 7))
    ids[:3, 4:] = 0
    return _trained(run, (ids, torch.randint(3, (6,))), e=nn.Embedding(16, 8), h=nn.Linear(8, 3))


def _residual(add):
    run = lambda m, x: m.b(add(m.a(x).relu(), x).mean((2, 3)))
    batch = torch.randn(6, 4, 5, 5), torch.randint(3, (6,))
    return _trained(run, batch, a=nn.Conv2d(4, 4, 3, padding=1), b=nn.Linear(4, 3))


def residual_of_a_tensor_and_itself():
    return _residual(lambda y, x: y + y)


def healthy_residual():
    return _residual(lambda y, x: y + x)
