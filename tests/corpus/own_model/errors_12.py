"""Errors of other calls and lines than those of set 8, written after its remedies."""

from __future__ import annotations

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, WIDTH, points
from parts_08 import saved, trained
from torch import nn
from torch.optim import SGD, AdamW, lr_scheduler
from torch.utils.data import DataLoader, Dataset


def padding_for_the_fused_attention():
    class Fused(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(8, 3 * WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, x, kept, y):
            q, k, v = (
                each.unflatten(-1, (4, 4)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1)
            )
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=kept)
            return F.cross_entropy(self.out(mixed.transpose(1, 2).flatten(2).mean(1)), y)

    return Fused(), {"x": torch.randn(3, 7, 8), "kept": torch.ones(3, 7).bool(),
                     "y": torch.randint(CLASSES, (3,))}  # fmt: skip


def groups_that_do_not_divide():
    model = nn.Sequential(nn.Conv2d(6, 8, 3, groups=4), nn.Flatten(), nn.Linear(8 * 36, CLASSES))
    return model, (torch.rand(2, 6, 8, 8), torch.randint(CLASSES, (2,))), nn.CrossEntropyLoss()


def order_of_three_dimensions_for_four():
    class Flip(MLP):
        def forward(self, x):
            x = x.permute(0, 2, 1)
            return super().forward(x.flatten(1))

    return Flip(), (torch.randn(4, 2, 2, 2), torch.randint(CLASSES, (4,))), nn.CrossEntropyLoss()


def optional_features_are_joined():
    class Joined(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(16, CLASSES)

        def forward(self, x, extra=None):
            return self.fc(torch.cat([x, extra], dim=-1))

    return Joined(), points(), nn.CrossEntropyLoss()


def one_hot_of_float_labels():
    def loss(model, batch):
        x, y = batch
        return F.mse_loss(model(x), F.one_hot(y, CLASSES).float())

    x, y = points()
    return MLP(), (x, y.float()), loss


def criterion_as_a_lambda():
    x, y = points()
    return MLP(), (x, y), lambda output, target: F.cross_entropy(output, target)


def variable_with_a_typo():
    class Typo(MLP):
        def forward(self, x):
            hidden = self.first(x).relu()
            hidden = hidden + hidden.mean()
            return self.second(hiden)  # noqa: F821

    return Typo(), points(), nn.CrossEntropyLoss()


def variable_of_one_branch():
    def loss(model, batch):
        x, y = batch
        if len(x) > 100:
            weight = 0.5
        return F.cross_entropy(model(x), y) * weight

    return MLP(), points(), loss


def share_of_nothing():
    def loss(model, batch):
        x, y = batch
        count = sum(int(each) for each in (y == 99).tolist())
        return F.cross_entropy(model(x), y) * (1 / count)

    return MLP(), points(), loss


def own_assertion_about_channels():
    class Checked(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, CLASSES, 3)

        def forward(self, images):
            assert images.shape[1] == 3
            return self.conv(images).mean((2, 3))

    batch = torch.rand(2, 8, 8, 3), torch.randint(CLASSES, (2,))
    return Checked(), batch, nn.CrossEntropyLoss()


class Named(Dataset):
    """Samples with the class as a word."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.randn(8), ("cat", "dog")[index % 2]


def words_as_labels():
    return MLP(), DataLoader(Named(), batch_size=4), nn.CrossEntropyLoss()


def transform_that_was_not_passed():
    class Images(Dataset):
        def __init__(self, transform=None):
            self.transform = transform

        def __len__(self):
            return 8

        def __getitem__(self, index):
            return self.transform(torch.rand(8)), index % CLASSES

    return MLP(), DataLoader(Images(), batch_size=4), nn.CrossEntropyLoss()


def dot_on_a_dict():
    config = {"width": 16, "classes": 5}
    model = nn.Sequential(nn.Linear(8, config.width), nn.Linear(config.width, config.classes))
    return model, points(), nn.CrossEntropyLoss()


def option_of_a_similar_name():
    args = SimpleNamespace(n_layers=2, width=16)
    layers = [nn.Linear(8, 8) for _ in range(args.n_layer)]
    return nn.Sequential(*layers, nn.Linear(8, CLASSES)), points(), nn.CrossEntropyLoss()


def layer_without_its_outputs():
    return nn.Sequential(nn.Linear(8), nn.Linear(16, CLASSES)), points(), nn.CrossEntropyLoss()


def convolution_without_a_flatten():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Linear(4 * 6 * 6, CLASSES))
    return model, (torch.rand(2, 3, 8, 8), torch.randint(CLASSES, (2,))), nn.CrossEntropyLoss()


def state_without_the_cell():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(8, WIDTH, batch_first=True), nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            start = torch.zeros(1, len(x), WIDTH)
            return self.head(self.lstm(x, start)[0][:, -1])

    batch = torch.randn(4, 7, 8), torch.randint(CLASSES, (4,))
    return Reader(), batch, nn.CrossEntropyLoss()


def frozen_before_the_optimizer():
    model = MLP()
    model.requires_grad_(False)
    chosen = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return trained(model, AdamW(chosen, lr=1e-3))


def mode_of_a_plateau():
    model = MLP()
    optimizer = SGD(model.parameters(), lr=0.1)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, mode="minimum")
    return trained(model, optimizer, scheduler=schedule)


def cosine_over_no_steps():
    model = MLP()
    optimizer = SGD(model.parameters(), lr=0.1)
    epochs = 1 // 2
    return trained(model, optimizer, scheduler=lr_scheduler.CosineAnnealingLR(optimizer, epochs))


def one_layer_more_than_in_the_file():
    class Deeper(MLP):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, x):
            return self.second(self.norm(self.first(x)).relu())

    model = Deeper()
    model.load_state_dict(torch.load(saved(MLP().state_dict())))
    return trained(model)


def target_before_prediction():
    def loss(model, batch):
        x, y = batch
        return F.cross_entropy(y, model(x))

    return MLP(), points(), loss


def rows_of_other_lengths_in_forward():
    class Windows(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, CLASSES)

        def forward(self, x):
            pieces = [x[:, start : start + 4] for start in range(0, x.shape[1], 4)]
            return self.fc(torch.stack(pieces, dim=1)).mean(1)

    batch = torch.randn(3, 10), torch.randint(CLASSES, (3,))
    return Windows(), batch, nn.CrossEntropyLoss()


def third_index_of_a_matrix():
    class Last(MLP):
        def forward(self, x):
            return super().forward(x[:, -1, :])

    return Last(), points(), nn.CrossEntropyLoss()


def width_as_a_text():
    config = {"width": "16"}
    model = nn.Sequential(nn.Linear(8, config["width"]), nn.Linear(16, CLASSES))
    return model, points(), nn.CrossEntropyLoss()


def attribute_named_train():
    class Flagged(MLP):
        def __init__(self):
            super().__init__()
            self.train = True

    return Flagged(), points(), nn.CrossEntropyLoss()


def key_that_the_collate_expects():
    def collate(samples):
        images = torch.stack([each["image"] for each in samples])
        return images, torch.tensor([each["label"] for each in samples])

    class Pictures(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return {"image": torch.rand(8), "target": index % CLASSES}

    loader = DataLoader(Pictures(), batch_size=4, collate_fn=collate, num_workers=1)
    return MLP(), loader, nn.CrossEntropyLoss()


def more_tokens_than_positions():
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(vocab_size=61, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=32, max_position_embeddings=16)  # fmt: skip
    batch = {"input_ids": torch.randint(61, (2, 20)), "labels": torch.tensor([0, 1])}
    return BertForSequenceClassification(config), batch


def one_label_for_each_sentence_of_tokens():
    from transformers import BertConfig, BertForTokenClassification

    config = BertConfig(vocab_size=61, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=32, num_labels=3)  # fmt: skip
    batch = {"input_ids": torch.randint(61, (2, 9)), "labels": torch.tensor([0, 1])}
    return BertForTokenClassification(config), batch


def size_of_a_norm_after_a_convolution():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.LayerNorm(8), nn.Flatten(), nn.Linear(288, CLASSES)
    )
    return model, (torch.rand(2, 3, 8, 8), torch.randint(CLASSES, (2,))), nn.CrossEntropyLoss()


def text_in_the_batch():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.EmbeddingBag(31, CLASSES)

        def forward(self, text):
            return self.table(text)

    return Reader(), (["a cat", "a dog"], torch.tensor([0, 1])), nn.CrossEntropyLoss()
