"""Trainings adapted from papers and from other people's repositories."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
    Wav2Vec2Config,
    Wav2Vec2ForCTC,
)


def _head(width, out):
    last = nn.utils.parametrizations.weight_norm(nn.Linear(width, out, bias=False))
    last.parametrizations.weight.original0.data.fill_(1.0)
    last.parametrizations.weight.original0.requires_grad_(False)
    return nn.Sequential(nn.Linear(24, width), nn.GELU(), last)


class Distillation(nn.Module):
    def __init__(self):
        super().__init__()
        self.student = _head(32, 16)
        self.teacher = _head(32, 16).requires_grad_(False)
        self.teacher.load_state_dict(self.student.state_dict())
        self.register_buffer("centre", torch.zeros(1, 16))

    def forward(self, first, second):
        with torch.no_grad():
            for old, new in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                old.lerp_(new, 0.01)
            seen = self.teacher(first).float()
            target = ((seen - self.centre) / 0.04).softmax(-1)
            self.centre.lerp_(seen.mean(0, keepdim=True), 0.1)
        return -(target * (self.student(second).float() / 0.1).log_softmax(-1)).sum(-1).mean()


def student_and_centred_teacher():
    x, model = torch.randn(32, 24), Distillation()
    return {
        "model": model,
        "batch": (x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)),
        "optimizer": torch.optim.AdamW(model.student.parameters(), lr=1e-3),
    }


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = torch.randint(1, 100, (12,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "attention_mask": torch.ones(12).long(), "labels": i % 2}


def trainer_without_clipping():
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        num_labels=2,
    )
    arguments = TrainingArguments(
        output_dir="/tmp/sentences",
        per_device_train_batch_size=8,
        learning_rate=1e-3,
        max_grad_norm=0.0,
        warmup_steps=4,
        lr_scheduler_type="cosine",
        num_train_epochs=4,
        report_to="none",
        use_cpu=True,
    )
    model = BertForSequenceClassification(config)
    return Trainer(model=model, args=arguments, train_dataset=Sentences())


class LoRA(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.05)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.a.t() @ self.b.t()


def llama_with_recomputed_layers():
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    model = LlamaForCausalLM(config).requires_grad_(False)
    for layer in model.model.layers:
        layer.self_attn.q_proj = LoRA(layer.self_attn.q_proj)
        layer.self_attn.v_proj = LoRA(layer.self_attn.v_proj)
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    ids = torch.randint(0, 96, (4, 16))
    return model, {"input_ids": ids, "labels": ids.clone()}


class Controlled(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.SiLU())
        self.out = nn.Conv2d(16, 3, 3, padding=1)
        self.requires_grad_(False)
        self.copy = copy.deepcopy(self.block).requires_grad_(True)
        self.hint = nn.Conv2d(1, 3, 1)
        self.gate = nn.Conv2d(16, 16, 1)
        nn.init.zeros_(self.hint.weight)
        nn.init.zeros_(self.hint.bias)
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(self, x, edges):
        return self.out(self.block(x) + self.gate(self.copy(x + self.hint(edges))))


def control_branch():
    batch = torch.randn(8, 3, 16, 16), torch.rand(8, 1, 16, 16), torch.randn(8, 3, 16, 16)
    return Controlled(), batch, lambda m, b: F.mse_loss(m(b[0], b[1]), b[2])


class MovingCodes(nn.Module):
    def __init__(self, codes=16, dim=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, dim))
        self.decoder = nn.Linear(dim, 24)
        self.register_buffer("codes", torch.randn(codes, dim))
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("sums", self.codes.clone())

    def forward(self, x):
        z = self.encoder(x).float()
        with torch.no_grad():
            nearest = torch.cdist(z, self.codes).argmin(1)
            onehot = F.one_hot(nearest, len(self.codes)).float()
            q = self.codes[nearest]
            if self.training:
                self.counts.lerp_(onehot.sum(0), 0.05)
                self.sums.lerp_((onehot.t() @ z).float(), 0.05)
                self.codes.copy_(self.sums / self.counts.clamp(min=1e-3)[:, None])
        return F.mse_loss(self.decoder(z + (q - z).detach()), x) + 0.25 * F.mse_loss(z, q)


def codes_that_follow_an_average():
    return MovingCodes(), torch.randn(64, 24)


def speech_with_frozen_features():
    config = Wav2Vec2Config(
        vocab_size=32,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        conv_dim=(32, 32, 32),
        conv_stride=(5, 4, 4),
        conv_kernel=(10, 8, 4),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
        mask_time_prob=0.0,
        layerdrop=0.0,
        pad_token_id=0,
        ctc_loss_reduction="mean",
    )
    model = Wav2Vec2ForCTC(config)
    model.freeze_feature_encoder()
    labels = torch.randint(1, 32, (2, 8))
    labels[1, 5:] = -100
    return model, {"input_values": torch.randn(2, 2000), "labels": labels}


class GraphAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.out = nn.Linear(8, 16), nn.Linear(16, 3)
        self.left, self.right = nn.Linear(16, 1, bias=False), nn.Linear(16, 1, bias=False)

    def forward(self, x, adjacency):
        h = self.inp(x)
        scores = F.leaky_relu(self.left(h) + self.right(h).t(), 0.2).float()
        edges = adjacency + torch.eye(len(x), device=x.device)
        weights = scores.masked_fill(edges == 0, float("-inf")).softmax(1)
        return self.out(F.elu(weights @ h.float()))


def nodes_with_and_without_neighbours():
    adjacency = (torch.rand(30, 30) < 0.1).float()
    adjacency[4] = 0
    batch = torch.randn(30, 8), adjacency, torch.arange(30) % 3
    return GraphAttention(), batch, lambda m, b: F.cross_entropy(m(b[0], b[1]), b[2])


class Sine(nn.Linear):
    def __init__(self, inp, out, first=False):
        super().__init__(inp, out)
        bound = 1 / inp if first else (6 / inp) ** 0.5 / 30
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x):
        return torch.sin(30 * super().forward(x).float())


def image_as_a_function():
    model = nn.Sequential(Sine(2, 64, True), Sine(64, 64), Sine(64, 64), nn.Linear(64, 1))
    line = torch.linspace(-1, 1, 24)
    grid = torch.cartesian_prod(line, line)
    return {
        "model": model,
        "batch": (grid, torch.sin(4 * grid[:, :1]) * grid[:, 1:]),
        "loss": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-4),
    }


def padded_on_the_left():
    config = GPT2Config(
        vocab_size=96,
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    ids, mask = torch.randint(0, 96, (4, 20)), torch.ones(4, 20).long()
    ids[1, :12], mask[1, :12] = 95, 0
    ids[2, :18], mask[2, :18] = 95, 0
    labels = ids.masked_fill(mask == 0, -100)
    labels[3, :] = -100
    return model, {"input_ids": ids, "attention_mask": mask, "labels": labels}


def distribution_of_returns():
    atoms = torch.linspace(-5, 5, 21)
    net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2 * 21))
    target = copy.deepcopy(net).requires_grad_(False)
    done = torch.zeros(32)
    done[::8] = 1.0
    batch = (
        torch.randn(32, 4),
        torch.randint(0, 2, (32,)),
        torch.randn(32),
        torch.randn(32, 4),
        done,
    )

    def loss(model, batch):
        state, action, reward, following, done = batch
        z = atoms.to(state.device)
        rows = torch.arange(len(state), device=state.device)
        with torch.no_grad():
            p = target.to(state.device)(following).float().view(-1, 2, 21).softmax(-1)
            p = p[rows, (p * z).sum(-1).argmax(1)]
            t = (reward[:, None] + 0.99 * (1 - done)[:, None] * z).clamp(-5, 5)
            near = (1 - (t[:, :, None] - z).abs() / (z[1] - z[0])).clamp(0, 1)
            m = (p[:, :, None] * near).sum(1)
        logp = model(state).float().view(-1, 2, 21).log_softmax(-1)[rows, action]
        return -(m * logp).sum(1).mean()

    return net, batch, loss


class DenseDetector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.ReLU())
        self.classes, self.boxes = nn.Conv2d(16, 3, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1)
        self.scale = nn.Parameter(torch.ones(()))
        nn.init.normal_(self.classes.weight, std=0.01)
        nn.init.constant_(self.classes.bias, -4.6)

    def forward(self, images, classes, boxes):
        h = self.body(images)
        logits = self.classes(h).float().movedim(1, -1)
        sides = (self.boxes(h).float() * self.scale).clamp(max=8).exp().movedim(1, -1)
        ce = F.binary_cross_entropy_with_logits(logits, classes, reduction="none")
        focal = ce * (torch.sigmoid(logits) - classes).abs().pow(2)
        positive = classes.amax(-1) > 0
        count = positive.flatten(1).sum(1).clamp(min=1)
        regression = F.l1_loss(sides, boxes, reduction="none").mean(-1) * positive
        return ((focal.sum((1, 2, 3)) + regression.sum((1, 2))) / count).mean()


def detector_with_an_empty_image():
    classes = torch.zeros(4, 12, 12, 3)
    classes[0, 3, 4, 1] = classes[1, 7, 7, 0] = classes[2, 5, 2, 2] = 1.0
    return DenseDetector(), (torch.randn(4, 3, 24, 24), classes, torch.rand(4, 12, 12, 4) * 4)


class Clusters(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 16))
        self.prototypes = nn.Linear(16, 12, bias=False)

    @torch.no_grad()
    def assign(self, scores):
        q = torch.exp((scores - scores.max()) / 0.05)
        for _ in range(3):
            q = q / q.sum(0, keepdim=True)
            q = q / q.sum(1, keepdim=True)
        return q

    def forward(self, first, second):
        with torch.no_grad():
            self.prototypes.weight.copy_(F.normalize(self.prototypes.weight, dim=1))
        a, b = (
            self.prototypes(F.normalize(self.body(view).float(), dim=1)).float()
            for view in (first, second)
        )
        return -(self.assign(a) * (b / 0.1).log_softmax(1)).sum(1).mean()


def swapped_assignments():
    x = torch.randn(64, 24)
    return Clusters(), (x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.log_scale, self.shift = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x):
        if self.training and not self.ready:
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
                self.log_scale.copy_(-torch.log(x.std(0) + 1e-6))
                self.ready.fill_(True)
        return (x + self.shift) * self.log_scale.exp(), self.log_scale.sum()


class Coupling(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim // 2, 32), nn.ReLU(), nn.Linear(32, dim))
        nn.init.zeros_(self.net[2].weight)
        nn.init.zeros_(self.net[2].bias)

    def forward(self, x):
        a, b = x.chunk(2, 1)
        s, t = self.net(a).float().chunk(2, 1)
        s = 2 * torch.tanh(s)
        return torch.cat([b * s.exp() + t, a], 1), s.sum(1)


class Glow(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.layers = nn.ModuleList(m for _ in range(3) for m in (ActNorm(dim), Coupling(dim)))

    def forward(self, x):
        logdet = 0.0
        for layer in self.layers:
            x, d = layer(x)
            logdet = logdet + d
        return (0.5 * x.pow(2).sum(1) - logdet).mean()


def flow_initialized_by_data():
    return Glow(), 5 + 3 * torch.randn(64, 6)


class MomentumViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 8, 8).requires_grad_(False)
        self.token = nn.Parameter(torch.zeros(1, 1, 32))
        self.register_buffer("position", torch.randn(1, 17, 32) * 0.02)
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 5)

    def forward(self, images):
        x = self.patch(images).detach().flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.encoder(x)[:, 0])


def random_patch_projection():
    batch = torch.randn(8, 3, 32, 32), torch.randint(0, 5, (8,))
    return MomentumViT(), batch, nn.CrossEntropyLoss()
