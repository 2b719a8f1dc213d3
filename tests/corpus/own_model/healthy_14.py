"""Trainings of classifiers, taggers, detectors and regressions."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def _giou(a, b):
    top_left = torch.maximum(a[:, :2], b[:, :2])
    bottom_right = torch.minimum(a[:, 2:], b[:, 2:])
    overlap = (bottom_right - top_left).clamp(min=0).prod(1)
    area_a = (a[:, 2:] - a[:, :2]).clamp(min=0).prod(1)
    area_b = (b[:, 2:] - b[:, :2]).clamp(min=0).prod(1)
    union = area_a + area_b - overlap
    hull = torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])
    hull = hull.prod(1).clamp(min=1e-6)
    return overlap / union.clamp(min=1e-6) - (hull - union) / hull


class Detector(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False),
            nn.GroupNorm(4, 16),
            nn.ReLU(inplace=True),
            nn.Conv2d(16, 32, 3, 2, 1, bias=False),
            nn.GroupNorm(4, 32),
            nn.ReLU(inplace=True),
        )
        self.scores = nn.Conv2d(32, classes, 3, padding=1)
        self.sides = nn.Conv2d(32, 4, 3, padding=1)
        nn.init.constant_(self.scores.bias, -math.log(99))
        nn.init.normal_(self.sides.weight, std=0.01)

    def forward(self, images):
        features = self.stem(images)
        scores = self.scores(features).flatten(2).transpose(1, 2)
        sides = self.sides(features).flatten(2).transpose(1, 2)
        return scores, F.softplus(sides.float())


def detector_without_anchors():
    model = Detector()
    images = torch.randn(2, 3, 32, 32)
    grid = torch.stack(torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="xy"), -1)
    grid = grid.view(-1, 2) + 0.5
    labels = torch.full((2, 64), -1)
    labels[0, 9:12] = 2
    labels[0, 17:20] = 2
    boxes = torch.zeros(2, 64, 4)
    boxes[0] = torch.tensor([0.4, 0.7, 4.8, 3.9])

    def loss(model, batch):
        images, labels, boxes = batch
        scores, sides = model(images)
        positive = labels >= 0
        target = F.one_hot(labels.clamp(min=0), scores.shape[-1]) * positive[..., None]
        p = scores.float().sigmoid()
        bce = F.binary_cross_entropy_with_logits(scores.float(), target.float(), reduction="none")
        weight = torch.where(target > 0, 0.25 * (1 - p) ** 2, 0.75 * p**2)
        count = positive.sum().clamp(min=1)
        points = grid.to(images.device).expand(2, -1, -1)[positive]
        found = torch.cat([points - sides[positive][:, :2], points + sides[positive][:, 2:]], 1)
        return (weight * bce).sum() / count + (1 - _giou(found, boxes[positive])).sum() / count

    return model, (images, labels, boxes), loss


class UNet(nn.Module):
    def __init__(self, width=8, classes=3):
        super().__init__()

        def block(inputs, outputs):
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
                nn.InstanceNorm2d(outputs, affine=True),
                nn.LeakyReLU(0.01, inplace=True),
            )

        self.down1 = block(1, width)
        self.down2 = block(width, 2 * width)
        self.middle = block(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.right2 = block(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.right1 = block(2 * width, width)
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        b = self.right2(torch.cat([self.up2(c), b], 1))
        a = self.right1(torch.cat([self.up1(b), a], 1))
        return self.out(a)


def segmentation_with_dice():
    """Organs are rare, and one class is in no image of the batch."""
    model = UNet()
    images = torch.randn(2, 1, 32, 32)
    masks = torch.zeros(2, 32, 32, dtype=torch.long)
    masks[0, 4:9, 4:9] = 1
    masks[:, 0] = 255

    def loss(model, batch):
        images, masks = batch
        logits = model(images).float()
        valid = (masks != 255)[:, None]
        target = F.one_hot(masks.where(masks != 255, 0), 3).permute(0, 3, 1, 2) * valid
        p = logits.softmax(1) * valid
        overlap = (p * target).sum((0, 2, 3))
        dice = (2 * overlap + 1) / (p.sum((0, 2, 3)) + target.sum((0, 2, 3)) + 1)
        return F.cross_entropy(logits, masks, ignore_index=255) - dice.mean()

    return model, (images, masks), loss


class Residual(nn.Module):
    def __init__(self, width, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, stride, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = nn.AvgPool2d(stride) if stride > 1 else nn.Identity()
        nn.init.zeros_(self.bn2.weight)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


def residual_network_in_batches_of_two():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        Residual(16),
        Residual(16, 2),
        Residual(16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    batch = torch.randn(2, 3, 16, 16), torch.tensor([3, 7])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return {
        "model": model,
        "batch": batch,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


class WordModel(nn.Module):
    def __init__(self, words=200, width=48):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.LSTM(width, width, 2, dropout=0.2)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(width, words)
        self.out.weight = self.embed.weight
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        nn.init.zeros_(self.out.bias)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.drop(self.embed(tokens)))
        return self.out(self.drop(hidden))


def word_model_with_large_steps():
    model = WordModel()
    text = torch.randint(0, 200, (36, 20))

    def loss(model, text):
        logits = model(text[:-1])
        return F.cross_entropy(logits.flatten(0, 1), text[1:].flatten())

    return {
        "model": model,
        "batch": text,
        "loss": loss,
        "optimizer": torch.optim.SGD(model.parameters(), lr=20.0),
        "max_grad_norm": 0.25,
    }


class Tagger(nn.Module):
    def __init__(self, words=100, tags=6, width=24):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.rnn = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.emit = nn.Linear(2 * width, tags)
        self.start = nn.Parameter(torch.zeros(tags))
        self.stop = nn.Parameter(torch.zeros(tags))
        self.move = nn.Parameter(torch.zeros(tags, tags))

    def forward(self, words, lengths, tags):
        packed = pack_padded_sequence(
            self.embed(words), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        hidden, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        scores = self.emit(hidden).float()
        steps = scores.shape[1]
        mask = torch.arange(steps, device=words.device) < lengths[:, None]
        tags = tags[:, :steps].clamp(min=0)
        rows = torch.arange(len(words), device=words.device)
        alpha = self.start + scores[:, 0]
        gold = self.start[tags[:, 0]] + scores[rows, 0, tags[:, 0]]
        for t in range(1, steps):
            following = torch.logsumexp(alpha[:, :, None] + self.move, 1) + scores[:, t]
            alpha = torch.where(mask[:, t, None], following, alpha)
            step = self.move[tags[:, t - 1], tags[:, t]] + scores[rows, t, tags[:, t]]
            gold = gold + step * mask[:, t]
        gold = gold + self.stop[tags[rows, lengths - 1]]
        return (torch.logsumexp(alpha + self.stop, 1) - gold).mean()


def tagger_of_sentences_of_all_lengths():
    lengths = torch.tensor([3, 9, 1, 6])
    words = torch.randint(1, 100, (4, 12))
    tags = torch.randint(0, 6, (4, 12))
    inside = torch.arange(12) < lengths[:, None]
    batch = {"words": words * inside, "lengths": lengths, "tags": tags.where(inside, -100)}
    return Tagger(), batch


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, 1))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x, exposure):
        return self.net(x).squeeze(-1) + exposure.log()


def counts_with_an_exposure():
    model = Counts()
    x = torch.randn(64, 6)
    exposure = torch.rand(64) * 20 + 5
    counts = torch.poisson(exposure * (0.5 * x[:, 0] + 1).exp())
    likelihood = nn.PoissonNLLLoss()
    return model, (x, exposure, counts), lambda m, b: likelihood(m(b[0], b[1]), b[2])


def survival_times():
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1, bias=False))
    x = torch.randn(40, 8)
    times = torch.rand(40) * (-x[:, 0]).exp()
    observed = torch.rand(40) < 0.7

    def loss(model, batch):
        x, times, observed = batch
        order = times.argsort(descending=True)
        risk = model(x[order]).squeeze(-1).float()
        seen = observed[order]
        return -(risk - risk.logcumsumexp(0))[seen].mean()

    return model, (x, times, observed), loss


def ordinals_with_thresholds():
    class Ordinal(nn.Module):
        def __init__(self, levels=5):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1, bias=False))
            self.first = nn.Parameter(torch.tensor(-1.5))
            self.gaps = nn.Parameter(torch.zeros(levels - 2))

        def forward(self, x, level):
            gaps = F.softplus(self.gaps).cumsum(0)
            cuts = torch.cat([self.first[None], self.first + gaps])
            below = torch.sigmoid(cuts - self.net(x).float())
            ends = F.pad(below, (1, 0)), F.pad(below, (0, 1), value=1.0)
            p = (ends[1] - ends[0]).gather(1, level[:, None])
            return -p.clamp(min=1e-6).log().mean()

    return Ordinal(), {"x": torch.randn(50, 10), "level": torch.randint(0, 5, (50,))}


def hinge_from_zero_weights():
    model = nn.Linear(20, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    x = torch.randn(31, 20)
    y = (x[:, 0] > 0.1).float() * 2 - 1

    def loss(model, batch):
        x, y = batch
        margin = F.relu(1 - y * model(x).squeeze(-1)).mean()
        return margin + 1e-3 * model.weight.square().sum()

    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    return {"model": model, "batch": (x, y), "loss": loss, "optimizer": optimizer}


class SkipGram(nn.Module):
    def __init__(self, words=300, width=32):
        super().__init__()
        self.center = nn.Embedding(words, width, sparse=True)
        self.context = nn.Embedding(words, width, sparse=True)
        nn.init.uniform_(self.center.weight, -0.5 / width, 0.5 / width)
        nn.init.zeros_(self.context.weight)

    def forward(self, center, context, noise):
        v = self.center(center)
        right = (v * self.context(context)).sum(-1)
        wrong = torch.einsum("bd,bkd->bk", v, self.context(noise))
        return -(F.logsigmoid(right).sum() + F.logsigmoid(-wrong).sum())


def skip_gram_with_noise_words():
    model = SkipGram()
    batch = {
        "center": torch.randint(0, 300, (256,)),
        "context": torch.randint(0, 300, (256,)),
        "noise": torch.randint(0, 300, (256, 5)),
    }
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.01)
    return {"model": model, "batch": batch, "optimizer": optimizer}


class Factors(nn.Module):
    def __init__(self, users=80, items=60, width=16):
        super().__init__()
        self.users = nn.Embedding(users, width)
        self.items = nn.Embedding(items, width)
        self.user_bias = nn.Embedding(users, 1)
        self.item_bias = nn.Embedding(items, 1)
        self.mean = nn.Parameter(torch.tensor(3.5))
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.01)
        for table in (self.user_bias, self.item_bias):
            nn.init.zeros_(table.weight)

    def forward(self, user, item):
        product = (self.users(user) * self.items(item)).sum(-1)
        biases = self.user_bias(user) + self.item_bias(item)
        return product + biases.squeeze(-1) + self.mean


def ratings_by_factors():
    """Ratings of users and items; small factors, biases of zero."""
    user, item = torch.randint(0, 80, (128,)), torch.randint(0, 60, (128,))
    stars = torch.randint(1, 6, (128,)).float()
    model = Factors()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-5)
    return {
        "model": model,
        "batch": (user, item, stars),
        "loss": lambda m, b: F.mse_loss(m(b[0], b[1]), b[2]),
        "optimizer": optimizer,
    }


class SharedAutoencoder(nn.Module):
    def __init__(self, pixels=64, width=24):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, pixels))
        self.hidden_bias = nn.Parameter(torch.zeros(width))
        self.pixel_bias = nn.Parameter(torch.zeros(pixels))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, images):
        noisy = images.masked_fill(torch.rand_like(images) < 0.3, 0)
        hidden = torch.sigmoid(F.linear(noisy, self.weight, self.hidden_bias))
        logits = F.linear(hidden, self.weight.t(), self.pixel_bias)
        return F.binary_cross_entropy_with_logits(logits, images, reduction="sum") / len(images)


def denoising_with_a_transposed_decoder():
    return SharedAutoencoder(), (torch.rand(32, 64) < 0.2).float()


class Upscaler(nn.Module):
    def __init__(self, width=16, blocks=3):
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1),
                nn.PReLU(width),
                nn.Conv2d(width, width, 3, padding=1),
            )
            for _ in range(blocks)
        )
        self.tail = nn.Conv2d(width, 12, 3, padding=1)
        nn.init.zeros_(self.tail.weight)
        nn.init.zeros_(self.tail.bias)

    def forward(self, small):
        x = self.head(small)
        for block in self.body:
            x = x + 0.1 * block(x)
        large = F.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)
        return large + F.pixel_shuffle(self.tail(x), 2)


def super_resolution():
    large = torch.rand(4, 3, 24, 24)
    small = F.avg_pool2d(large, 2)

    def loss(model, batch):
        small, large = batch
        return ((model(small) - large).square() + 1e-6).sqrt().mean()

    model = Upscaler()
    return {
        "model": model,
        "batch": (small, large),
        "loss": loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.9, 0.99)),
    }


class ScaledBlock(nn.Module):
    def __init__(self, width, heads, keep):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.gamma1 = nn.Parameter(torch.full((width,), 1e-6))
        self.gamma2 = nn.Parameter(torch.full((width,), 1e-6))
        self.keep = keep

    def path(self, x):
        if not self.training or self.keep == 1:
            return x
        shape = (len(x),) + (1,) * (x.dim() - 1)
        return x * torch.empty(shape, device=x.device).bernoulli_(self.keep) / self.keep

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.path(self.gamma1 * self.attend(h, h, h, need_weights=False)[0])
        return x + self.path(self.gamma2 * self.mlp(self.norm2(x)))


class Vision(nn.Module):
    def __init__(self, width=32, depth=4, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, 17, width))
        self.blocks = nn.Sequential(
            *(ScaledBlock(width, 4, 1 - 0.1 * i / (depth - 1)) for i in range(depth))
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        nn.init.trunc_normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x)).mean(1))


def vision_transformer_with_layer_scale():
    model = Vision()
    images = torch.randn(16, 3, 16, 16)
    labels = torch.randint(0, 10, (16,))
    share = 0.8
    mixed = share * images + (1 - share) * images.flip(0)
    soft = share * F.one_hot(labels, 10) + (1 - share) * F.one_hot(labels.flip(0), 10)
    return model, (mixed, soft), nn.CrossEntropyLoss(label_smoothing=0.1)


def micro_batches_inside_the_loss():
    model = nn.Sequential(
        nn.Linear(12, 48),
        nn.GELU(),
        nn.Dropout(0.1),
        nn.Linear(48, 48),
        nn.GELU(),
        nn.Linear(48, 4),
    )
    x, y = torch.randn(48, 12), torch.randint(0, 4, (48,))

    def loss(model, batch):
        parts = zip(*(t.chunk(6) for t in batch), strict=True)
        return sum(F.cross_entropy(model(x), y) / 6 for x, y in parts)

    return {
        "model": model,
        "batch": (x, y),
        "loss": loss,
        "optimizer": torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1),
        "max_grad_norm": 0.01,
    }


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher = nn.Sequential(
            nn.Conv1d(4, 32, 5, padding=2),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(32, 6),
        )
        self.teacher.requires_grad_(False)
        self.student = nn.Sequential(
            nn.Conv1d(4, 8, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()
        )
        self.head = nn.Linear(8, 6)

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, signal, labels, temperature=4.0):
        with torch.no_grad():
            wanted = F.log_softmax(self.teacher(signal).float() / temperature, -1)
        logits = self.head(self.student(signal)).float()
        got = F.log_softmax(logits / temperature, -1)
        soft = F.kl_div(got, wanted, log_target=True, reduction="batchmean") * temperature**2
        return 0.9 * soft + 0.1 * F.cross_entropy(logits, labels)


def distillation_at_a_high_temperature():
    return Student(), {"signal": torch.randn(16, 4, 40), "labels": torch.randint(0, 6, (16,))}


class Translator(nn.Module):
    def __init__(self, source=50, target=60, width=32):
        super().__init__()
        self.source = nn.Embedding(source, width, padding_idx=0)
        self.target = nn.Embedding(target, width, padding_idx=0)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.cell = nn.GRUCell(2 * width, width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.energy = nn.Linear(width, 1, bias=False)
        self.out = nn.Linear(2 * width, target)

    def forward(self, source, target):
        padding = source == 0
        memory, state = self.encoder(self.source(source))
        state, keys = state[0], self.key(memory)
        losses = []
        for before, after in zip(target.T[:-1], target.T[1:], strict=True):
            scores = self.energy(torch.tanh(self.query(state)[:, None] + keys)).squeeze(-1)
            weights = scores.float().masked_fill(padding, -math.inf).softmax(-1)
            context = torch.einsum("bt,btd->bd", weights.to(memory.dtype), memory)
            state = self.cell(torch.cat([self.target(before), context], -1), state)
            logits = self.out(torch.cat([state, context], -1))
            losses.append(F.cross_entropy(logits.float(), after, ignore_index=0, reduction="sum"))
        return torch.stack(losses).sum() / (target[:, 1:] != 0).sum()


def translation_with_additive_attention():
    source = torch.randint(1, 50, (6, 9))
    target = torch.randint(1, 60, (6, 8))
    source[0, 4:] = 0
    source[3, 1:] = 0
    target[2, 3:] = 0
    return {
        "model": (model := Translator()),
        "batch": {"source": source, "target": target},
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "max_grad_norm": 1.0,
    }


class Heatmaps(nn.Module):
    def __init__(self, joints=4):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1),
            nn.GroupNorm(2, 16),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, 1, 1),
            nn.GroupNorm(16, 16),
            nn.ReLU(),
        )
        self.out = nn.Conv2d(16, joints, 1)
        nn.init.normal_(self.out.weight, std=1e-3)
        nn.init.zeros_(self.out.bias)

    def forward(self, images):
        return self.out(self.net(images))


def keypoints_from_heatmaps():
    """Joints outside of the image have NaN coordinates and a weight of 0."""
    joints = torch.rand(4, 4, 2) * 16
    joints[1, 2] = float("nan")
    joints[3, :2] = float("nan")
    seen = joints.isfinite().all(-1)
    grid = torch.stack(torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="xy"), -1)
    far = (grid - joints.nan_to_num()[:, :, None, None]).square().sum(-1)
    target = torch.exp(-far / 8)

    def loss(model, batch):
        images, target, seen = batch
        error = (model(images).float() - target).square().mean((2, 3))
        return 0.5 * torch.where(seen, error, 0.0).mean()

    return Heatmaps(), (torch.randn(4, 3, 32, 32), target, seen), loss


def several_targets_with_gaps():
    model = nn.Sequential(nn.BatchNorm1d(9), nn.Linear(9, 32), nn.Mish(), nn.Linear(32, 5))
    x = torch.randn(40, 9) * torch.logspace(-3, 3, 9)
    y = torch.randn(40, 5)
    y[torch.rand(40, 5) < 0.6] = float("nan")

    def loss(model, batch):
        x, y = batch
        known = ~y.isnan()
        return F.huber_loss(model(x).float()[known], y[known], delta=0.1)

    return model, (x, y), loss


class Average(nn.Module):
    def __init__(self, model, decay=0.99):
        super().__init__()
        self.model = model
        self.copy = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self):
        for slow, fast in zip(self.copy.parameters(), self.model.parameters(), strict=True):
            slow.lerp_(fast, 1 - self.decay)

    def forward(self, x):
        if self.training:
            self.update()
        return self.model(x)


def slow_copy_with_a_cycle_of_rates():
    model = Average(
        nn.Sequential(
            nn.Conv1d(2, 16, 7, padding=3, groups=2, bias=False),
            nn.BatchNorm1d(16),
            nn.Hardswish(),
            nn.AdaptiveMaxPool1d(4),
            nn.Flatten(),
            nn.Linear(64, 3),
        )
    )
    optimizer = torch.optim.SGD(model.model.parameters(), lr=1e-5, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, 1e-5, 0.2, step_size_up=10)
    return {
        "model": model,
        "batch": (torch.randn(24, 2, 64), torch.randint(0, 3, (24,))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": scheduler,
    }


def regression_in_double():
    model = nn.Sequential(
        nn.Linear(3, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1)
    )
    model = model.double()
    x = torch.rand(100, 3, dtype=torch.float64) * 2 - 1
    y = torch.sin(3 * x).prod(1, keepdim=True)
    return {
        "model": model,
        "batch": (x, y),
        "loss": nn.MSELoss(),
        "optimizer": torch.optim.NAdam(model.parameters(), lr=1e-3),
    }


class Recognizer(nn.Module):
    def __init__(self, symbols=12):
        super().__init__()
        self.conv = nn.Conv1d(20, 48, 3, 2, 1)
        self.norm = nn.LayerNorm(48)
        self.rnn = nn.GRU(48, 32, 2, batch_first=True, bidirectional=True, dropout=0.1)
        self.out = nn.Linear(64, symbols)

    def forward(self, frames, frame_counts, text, text_lengths):
        x = self.norm(F.relu(self.conv(frames.transpose(1, 2))).transpose(1, 2))
        counts = (frame_counts + 1) // 2
        packed = pack_padded_sequence(x, counts.cpu(), batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        logs = self.out(x).float().log_softmax(-1).transpose(0, 1)
        return F.ctc_loss(logs, text, counts, text_lengths, reduction="sum") / len(frames)


def handwriting_with_ctc():
    batch = {
        "frames": torch.randn(4, 60, 20),
        "frame_counts": torch.tensor([60, 41, 33, 52]),
        "text": torch.randint(1, 12, (4, 8)),
        "text_lengths": torch.tensor([8, 3, 1, 6]),
    }
    return {
        "model": (model := Recognizer()),
        "batch": batch,
        "optimizer": torch.optim.AdamW(model.parameters(), lr=1e-3),
        "max_grad_norm": 5.0,
    }
