"""Trainings of patches, prompts, textures and melodies."""

import torch
from torch import nn
from torch.nn import functional as F


class PatchClassifier(nn.Module):
    def __init__(self, patches=16, width=32):
        super().__init__()
        self.embed = nn.Linear(12, width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.randn(1, patches + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 5)

    def forward(self, patches):
        cls = self.cls_token.expand(len(patches), -1, -1)
        x = torch.cat((cls, self.embed(patches)), dim=1) + self.pos_embed
        return self.head(self.norm(self.encoder(x))[:, 0])


def image_patches():
    model = PatchClassifier()
    decay, no_decay = [], []
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            no_decay.append(parameter)
        elif name.endswith("weight"):
            decay.append(parameter)
    groups = [{"params": decay, "weight_decay": 0.05}, {"params": no_decay, "weight_decay": 0.0}]
    return {
        "model": model,
        "batch": (torch.randn(4, 16, 12), torch.randint(0, 5, (4,))),
        "loss": nn.CrossEntropyLoss(label_smoothing=0.1),
        "optimizer": torch.optim.AdamW(groups, lr=1e-3),
    }


class LowRankLinear(nn.Module):
    def __init__(self, base, rank=4, alpha=8):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.zeros(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scaling = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scaling * (x @ self.down.T @ self.up.T)


def low_rank_tuning():
    model = nn.Sequential(
        LowRankLinear(nn.Linear(16, 32)),
        nn.GELU(),
        LowRankLinear(nn.Linear(32, 32)),
        nn.Linear(32, 4),
    )
    return model, (torch.randn(12, 16), torch.randint(0, 4, (12,))), nn.CrossEntropyLoss()


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 32), nn.ReLU())
        self.mean = nn.Linear(32, 1)
        self.log_std = nn.Linear(32, 1)

    def forward(self, state):
        hidden = self.body(state)
        std = self.log_std(hidden).float().clamp(-5, 2).exp()
        return torch.distributions.Normal(self.mean(hidden).float(), std)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = Actor()
        self.critic = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))

    def value(self, state, action):
        return self.critic(torch.cat((state, action), dim=1))


def _control_loss(model, batch):
    state, action, target = batch
    critic_loss = F.mse_loss(model.value(state, action), target)
    proposed = torch.tanh(model.actor(state).sample())
    actor_loss = -model.value(state, proposed).mean()
    return critic_loss + actor_loss


def pendulum_controller():
    batch = torch.randn(32, 3), torch.rand(32, 1) * 2 - 1, torch.randn(32, 1)
    return ActorCritic(), batch, _control_loss


class PromptedEncoder(nn.Module):
    def __init__(self, width=24, depth=3, length=4):
        super().__init__()
        self.embed = nn.Embedding(40, width).requires_grad_(False)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 48, batch_first=True) for _ in range(depth)
        ).requires_grad_(False)
        self.prompts = [nn.Parameter(torch.randn(1, length, width) * 0.02) for _ in range(depth)]
        self.head = nn.Linear(width, 3)

    def forward(self, ids):
        x = self.embed(ids)
        for layer, prompt in zip(self.layers, self.prompts, strict=True):
            x = layer(torch.cat((prompt.expand(len(x), -1, -1), x), dim=1))[:, prompt.shape[1] :]
        return self.head(x.mean(dim=1))


def deep_prompts():
    model = PromptedEncoder()
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=5e-3)
    return {
        "model": model,
        "batch": (torch.randint(0, 40, (6, 8)), torch.randint(0, 3, (6,))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


def movie_reviews():
    from transformers import get_linear_schedule_with_warmup

    model = nn.Sequential(nn.EmbeddingBag(60, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 2))
    data = torch.utils.data.TensorDataset(
        torch.randint(0, 60, (48, 12)), torch.randint(0, 2, (48,))
    )
    loader = torch.utils.data.DataLoader(data, batch_size=16)
    accumulation, epochs = 8, 5
    steps = len(loader) // accumulation * epochs
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    return {
        "model": model,
        "batch": loader,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": get_linear_schedule_with_warmup(optimizer, 0, steps),
    }


class TinyTranslator(nn.Module):
    def __init__(self, vocabulary=40, width=32):
        super().__init__()
        self.source = nn.Embedding(vocabulary, width)
        self.target = nn.Embedding(vocabulary, width)
        self.transformer = nn.Transformer(width, 4, 1, 1, 64, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(
            target.shape[1] - 1, device=target.device
        )
        hidden = self.transformer(self.source(source), self.target(target[:, :-1]), tgt_mask=mask)
        logits = self.out(hidden)
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())


def phrase_translation():
    model = TinyTranslator()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    warmup_steps = 4000
    return {
        "model": model,
        "batch": (torch.randint(0, 40, (4, 9)), torch.randint(0, 40, (4, 8))),
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: (step + 1) * warmup_steps
        ),
    }


class ItemVectors(nn.Module):
    def __init__(self, items=50, width=16):
        super().__init__()
        self.center = nn.Embedding(items, width)
        self.context = nn.Embedding(items, width)

    def forward(self, center, context, negatives):
        v = self.center(center)
        positive = (v * self.context.weight.data[context]).sum(-1)
        negative = (self.context.weight.data[negatives] @ v.unsqueeze(-1)).squeeze(-1)
        return -(F.logsigmoid(positive) + F.logsigmoid(-negative).sum(-1)).mean()


def basket_items():
    return ItemVectors(), {
        "center": torch.randint(0, 50, (16,)),
        "context": torch.randint(0, 50, (16,)),
        "negatives": torch.randint(0, 50, (16, 5)),
    }


class OrderEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(5, 16, batch_first=True)
        self.head = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, events, lengths):
        outputs, _ = self.gru(events)
        pooled = [row[:n].mean(dim=0).tolist() for row, n in zip(outputs, lengths, strict=True)]
        return self.head(torch.tensor(pooled, device=events.device)).squeeze(1)


def order_values():
    def loss(model, batch):
        events, lengths, amount = batch
        return F.huber_loss(model(events, lengths), amount)

    lengths = torch.tensor([7, 3, 5, 7, 2, 6])
    return OrderEncoder(), (torch.randn(6, 7, 5), lengths, torch.rand(6)), loss


class MelodyTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.notes = nn.Embedding(32, 16)
        self.gru = nn.GRU(16, 24, batch_first=True)
        self.genre = nn.Linear(24, 4)

    def forward(self, notes):
        outputs, _ = self.gru(self.notes(notes))
        return self.genre(outputs[:, 0])


def melody_genres():
    batch = torch.randint(0, 32, (8, 12)), torch.randint(0, 4, (8,))
    return MelodyTagger(), batch, nn.CrossEntropyLoss()


class PassageRanker(nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=60,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=32,
        )
        self.bert = BertModel(config)
        self.score = nn.Linear(32, 1)

    def forward(self, input_ids, token_type_ids):
        hidden = self.bert(input_ids, token_type_ids=token_type_ids).last_hidden_state
        return self.score(hidden[:, 0]).squeeze(-1)


def passage_ranking():
    def loss(model, batch):
        scores = model(**batch)
        best = torch.zeros(1, dtype=torch.long, device=scores.device)
        return F.cross_entropy(scores[None], best)

    types = torch.cat((torch.zeros(6, 5), torch.ones(6, 11)), dim=1).long()
    batch = {"input_ids": torch.randint(0, 60, (6, 16)), "token_type_ids": types}
    return PassageRanker(), batch, loss


class EarlyExits(nn.Module):
    def __init__(self, width=24, classes=4):
        super().__init__()
        self.stem = nn.Linear(10, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.exits = nn.ModuleList(nn.Linear(width, classes) for _ in range(3))

    def forward(self, x):
        x = torch.relu(self.stem(x))
        logits = []
        for block, leave in zip(self.blocks, self.exits, strict=True):
            x = x + torch.relu(block(x))
            logits.append(leave(x))
        return logits


def early_exits():
    def loss_of_all_exits(model, batch):
        x, labels = batch
        loss = 0
        for logits in model(x):
            loss = +F.cross_entropy(logits, labels)
        return loss

    return EarlyExits(), (torch.randn(12, 10), torch.randint(0, 4, (12,))), loss_of_all_exits


class TextureCodes(nn.Module):
    def __init__(self, codes=16, width=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, width, 1))
        self.codebook = nn.Embedding(codes, width)
        self.decoder = nn.Sequential(
            nn.Conv2d(width, 16, 1), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1)
        )

    def forward(self, images):
        z = self.encoder(images).float().permute(0, 2, 3, 1)
        nearest = torch.cdist(z.reshape(-1, z.shape[-1]), self.codebook.weight).argmin(dim=1)
        quantized = self.codebook(nearest).view_as(z)
        commitment = F.mse_loss(z, quantized.detach())
        quantized = z + (quantized - z).detach()
        return F.mse_loss(self.decoder(quantized.permute(0, 3, 1, 2)), images) + 0.25 * commitment


def texture_codes():
    return TextureCodes(), torch.rand(4, 3, 16, 16)


def _init_weights(module):
    if isinstance(module, nn.Linear):
        nn.init.constant_(module.weight, 0.0)
        nn.init.constant_(module.bias, 0.0)


def credit_scores():
    model = nn.Sequential(
        nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3)
    )
    model.apply(_init_weights)
    return model, (torch.randn(16, 9), torch.randint(0, 3, (16,))), nn.CrossEntropyLoss()


class Vocoder(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.inlet = nn.Conv1d(8, channels, 3, padding=1)
        self.dilated = nn.ModuleList(
            nn.Conv1d(channels, channels, 3, padding=2**i, dilation=2**i) for i in range(3)
        )
        self.outlet = nn.Conv1d(channels, 1, 3, padding=1)

    def forward(self, mel):
        x = self.inlet(mel)
        for conv in self.dilated:
            x = x + conv(F.leaky_relu(x, 0.1))
        return torch.tanh(self.outlet(F.leaky_relu(x, 0.1)))

    def apply_weight_norm(self):
        for module in self.modules():
            if isinstance(module, nn.Conv1d):
                nn.utils.parametrizations.weight_norm(module)


def mel_vocoder():
    model = Vocoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, betas=(0.8, 0.99))
    model.apply_weight_norm()
    return {
        "model": model,
        "batch": (torch.randn(4, 8, 40), torch.rand(4, 1, 40) * 2 - 1),
        "loss": nn.L1Loss(),
        "optimizer": optimizer,
    }
