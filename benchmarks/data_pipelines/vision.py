"""Pictures with timm, torchvision and Lightning, series and graphs; NAME_healthy and NAME_FAULT.

For the build of torchvision that has no operators for this torch, two are declared first.
"""

from __future__ import annotations

import random
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, random_split


def declare() -> None:
    """What torchvision registers shapes for."""
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    declare.library = library  # type: ignore[attr-defined] # it lives as long as the process


declare()
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def picture(seed: int) -> Any:
    from PIL import Image

    draw = torch.Generator().manual_seed(seed)
    small = torch.randint(0, 256, (4, 4, 3), generator=draw, dtype=torch.uint8)
    return Image.fromarray(small.numpy()).resize((40, 40))


class Pictures(Dataset):  # type: ignore[type-arg]
    """Pictures of four classes."""

    def __init__(self, transform: Any, count: int = 96, by_class: bool = False) -> None:
        self.transform, self.count, self.by_class = transform, count, by_class

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        label = index * 4 // self.count if self.by_class else index % 4
        return self.transform(picture(index)), label


def timm_train(fault: str) -> Any:
    """timm's train.py: create_loader with augmentation and mixup, without the GPU's prefetcher."""
    import timm
    from timm.data import Mixup, create_loader, resolve_data_config

    model = timm.create_model("resnet10t", num_classes=4)
    model.pretrained_cfg = {**dict(model.pretrained_cfg), "mean": MEAN, "std": STD}
    config = resolve_data_config({"input_size": (3, 32, 32)}, model=model)
    mean, std = config["mean"], config["std"]
    if fault == "unnormalized":
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if fault == "bytes":
        mean, std = (0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255)
    loader = create_loader(
        Pictures(None, by_class=fault == "sorted"),
        input_size=(3, 32, 32),
        batch_size=8,
        num_workers=0,
        is_training=fault != "sorted",
        use_prefetcher=False,
        mean=mean,
        std=std,
        device=torch.device("cpu"),
        persistent_workers=False,
        **({"auto_augment": "rand-m9-mstd0.5", "re_prob": 0.25} if fault == "augmented" else {}),
    )
    if fault == "mixup":
        mix = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, num_classes=4)
        loss = lambda module, batch: timm.loss.SoftTargetCrossEntropy()(  # noqa: E731
            module(mix(*batch)[0]), mix(*batch)[1]
        )
        return {"model": model, "train": loader, "loss": loss}
    return {"model": model, "train": loader, "loss": torch.nn.CrossEntropyLoss()}


def folder(fault: str) -> Path:
    root = Path(tempfile.mkdtemp(prefix="doctor-data-"))
    for split, start, count in (("train", 0, 64), ("val", 1000, 32)):
        for index in range(count):
            place = root / split / f"class{index % 4}"
            place.mkdir(parents=True, exist_ok=True)
            seed = index if fault == "leak" and split == "val" and index < 16 else start + index
            picture(seed).save(place / f"{index:04}.png")
    if fault == "conflict":
        for index in range(12):
            picture(index).save(root / "train" / f"class{(index + 1) % 4}" / f"copy{index}.png")
    return root


def finetune(fault: str) -> Any:
    """torchvision's references/classification: ImageFolder, random crops, normalization."""
    import torchvision
    from torchvision import transforms

    steps = [
        transforms.RandomResizedCrop(32),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, STD),
    ]
    if fault == "lastaxis":
        steps.append(transforms.Lambda(lambda image: image.permute(1, 2, 0)))
    if fault == "unnormalized":
        steps.pop()
    root = folder(fault)
    held = transforms.Compose(
        [transforms.Resize(32), transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    )
    train = torchvision.datasets.ImageFolder(str(root / "train"), transforms.Compose(steps))
    other = torchvision.datasets.ImageFolder(str(root / "val"), held)
    model = torchvision.models.resnet18(num_classes=4)
    model.pretrained_cfg = {"mean": MEAN, "std": STD}
    return {
        "model": model,
        "train": DataLoader(train, 8, shuffle=fault != "sorted"),
        "eval": DataLoader(other, 8),
        "loss": torch.nn.CrossEntropyLoss(),
    }


def mixed(fault: str) -> Any:
    """transforms.v2 with CutMix in the collator: classes become shares."""
    from torch.utils.data import default_collate
    from torchvision.transforms import v2

    steps = v2.Compose(
        [
            v2.ToImage(),
            v2.Resize((32, 32)),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )
    cut = v2.CutMix(num_classes=4)
    return DataLoader(
        Pictures(steps), 8, shuffle=True, collate_fn=lambda rows: cut(*default_collate(rows))
    )


def boxes(fault: str) -> Any:
    """references/detection: lists of pictures and of targets."""
    from torchvision.transforms import functional

    rows = [
        (
            functional.to_tensor(picture(n).resize((30 + n % 9, 40))),
            {
                "boxes": torch.tensor([[1.0, 2.0, 9.0 + n % 7, 12.0]]),
                "labels": torch.tensor([n % 3]),
            },
        )
        for n in range(48)
    ]
    return DataLoader(
        rows, 4, shuffle=True, collate_fn=lambda batch: tuple(zip(*batch, strict=True))
    )


def views(fault: str) -> Any:
    """Two augmented views of each picture, as in SimCLR."""
    from torchvision import transforms

    steps = transforms.Compose(
        [
            transforms.RandomResizedCrop(32),
            transforms.ColorJitter(0.4, 0.4),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
    return DataLoader(Pictures(lambda image: (steps(image), steps(image))), 8, shuffle=True)


def coder(fault: str) -> Any:
    """Lightning's autoencoder: random_split of one dataset, flat pictures, no classes used."""
    import lightning
    from torchvision import transforms

    class Data(lightning.LightningDataModule):
        def __init__(self) -> None:
            super().__init__()
            whole = Pictures(
                transforms.Compose([transforms.Grayscale(), transforms.ToTensor()]), 160
            )
            seeds = (1, 2) if fault == "leak" else (1, 1)
            if fault == "black":
                whole.transform = lambda image: torch.zeros(1, 40, 40)
            self.parts = [
                random_split(whole, [128, 32], torch.Generator().manual_seed(seed))[number]
                for number, seed in enumerate(seeds)
            ]

        def train_dataloader(self) -> Any:
            return DataLoader(self.parts[0], 16, shuffle=True)

        def val_dataloader(self) -> Any:
            return DataLoader(self.parts[1], 16)

    return Data()


def words(fault: str) -> Any:
    """Lightning's transformer: the dataset gives a block and the same block one token later."""
    import lightning
    from others import Small

    ids = torch.randint(3, 96, (9000,), generator=torch.Generator().manual_seed(5))
    rows = [(ids[s : s + 48], ids[s + 1 : s + 49]) for s in range(0, 8900, 60)]
    net = Small(shift=int(fault == "double"), causal=fault != "sees")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def training_step(self, batch: Any, index: int) -> Any:
            loss = self.net(*batch)
            self.log("train_loss", loss)
            return loss

        def train_dataloader(self) -> Any:
            return DataLoader(rows, 8, shuffle=True)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    return Module()


def series(fault: str) -> Any:
    """Windows over one series, each with the values that follow."""
    line = torch.cumsum(torch.randn(3000, generator=torch.Generator().manual_seed(8)), 0)
    if fault == "flat":
        line = torch.full_like(line, 2.5)
    rows = [(line[s : s + 96, None], line[s + 96 : s + 120, None]) for s in range(0, 2800, 4)]
    return {"train": DataLoader(rows[:500], 16, shuffle=True), "eval": DataLoader(rows[540:], 16)}


class Shards(IterableDataset):  # type: ignore[type-arg]
    """Shards of rows with a shuffle buffer, as webdataset reads them."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def __iter__(self) -> Any:
        info = torch.utils.data.get_worker_info()
        shards = list(range(16))
        if info is not None and self.fault != "twins":
            shards = shards[info.id :: info.num_workers]
        draw, buffer = random.Random(1), []
        for shard in shards:
            made = torch.Generator().manual_seed(shard)
            for _ in range(40):
                buffer.append((torch.randn(3, 8, 8, generator=made), shard % 5))
                if len(buffer) > 64:
                    yield buffer.pop(draw.randrange(len(buffer)))
        yield from buffer


class Crops(Dataset):  # type: ignore[type-arg]
    """A random part of a long recording, whatever the index."""

    recording = torch.randn(50_000, generator=torch.Generator().manual_seed(2))

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> Any:
        start = random.randrange(49_000)
        return self.recording[start : start + 512]


def crops(fault: str) -> Any:
    seed = (lambda worker: random.seed(1)) if fault == "seeded" else None
    return DataLoader(Crops(), 8, num_workers=2, worker_init_fn=seed)


class Short(Dataset):  # type: ignore[type-arg]
    """Its length counts rows that were removed."""

    def __len__(self) -> int:
        return 80

    def __getitem__(self, index: int) -> Any:
        return [torch.full((5,), float(n)) + torch.arange(5) for n in range(50)][index]


KINDS: dict[str, Any] = {
    "timm": timm_train,
    "finetune": finetune,
    "mixed": mixed,
    "boxes": boxes,
    "views": views,
    "coder": coder,
    "words": words,
    "series": series,
    "crops": crops,
    "shards": lambda fault: DataLoader(Shards(fault), 8, num_workers=2),
    "short": lambda fault: DataLoader(Short(), 8),
}


def __getattr__(name: str) -> Any:
    kind, _, fault = name.partition("_")
    if kind not in KINDS or not fault:
        raise AttributeError(name)
    return partial(KINDS[kind], "" if fault == "healthy" else fault)
