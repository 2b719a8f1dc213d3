"""Loaders and collations that fail."""

from __future__ import annotations

import time

import torch
from blocks import CLASSES, MLP, points
from parts_08 import classify, row
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split


class Rows(Dataset):
    """Samples that a function makes of their number."""

    def __init__(self, make, count=8):
        self.make, self.count = make, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.make(index)


def one_field_of_other_lengths():
    data = Rows(lambda i: {"x": torch.randn(8), "words": torch.ones(3 + i), "y": i % CLASSES})
    return MLP(), DataLoader(data, batch_size=4), classify


def lengths_differ_in_a_worker():
    data = Rows(lambda i: (torch.randn(3, 20 + 2 * i), i % CLASSES))
    return MLP(), DataLoader(data, batch_size=4, num_workers=1), nn.CrossEntropyLoss()


def field_that_some_samples_lack():
    data = Rows(lambda i: row(i) | ({"mask": torch.ones(8)} if i != 2 else {}))
    return MLP(), DataLoader(data, batch_size=4), classify


def sample_of_another_object():
    class Image:
        pass

    data = Rows(lambda i: (Image(), i % CLASSES))
    return MLP(), DataLoader(data, batch_size=4), nn.CrossEntropyLoss()


def function_of_the_factory_in_a_spawned_worker():
    data = Rows(lambda i: (torch.randn(8), i % CLASSES))
    loader = DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context="spawn")
    return MLP(), loader, nn.CrossEntropyLoss()


class Stream(IterableDataset):
    def __iter__(self):
        return iter([row(index) for index in range(8)])


def stream_is_shuffled():
    return MLP(), DataLoader(Stream(), batch_size=4, shuffle=True), classify


def sampler_and_shuffle():
    data = Rows(row)
    sampler = torch.utils.data.WeightedRandomSampler([1.0] * 8, 8)
    return MLP(), DataLoader(data, batch_size=4, shuffle=True, sampler=sampler), classify


def fewer_samples_than_a_batch():
    return MLP(), DataLoader(Rows(row), batch_size=16, drop_last=True), classify


def length_beyond_the_files():
    files = [f"{index}.png" for index in range(5)]
    data = Rows(lambda i: (torch.randn(8), len(files[i])), count=8)
    return MLP(), DataLoader(data, batch_size=8), nn.CrossEntropyLoss()


def inputs_and_labels_of_other_counts():
    x, y = points()
    return MLP(), DataLoader(TensorDataset(x, y[:5]), batch_size=2), nn.CrossEntropyLoss()


def split_that_does_not_add_up():
    train, _ = random_split(Rows(row), [5, 2])
    return MLP(), DataLoader(train, batch_size=2), classify


def dataset_without_a_length():
    class Words(Dataset):
        def __getitem__(self, index):
            return row(index)

    return MLP(), DataLoader(Words(), batch_size=4, shuffle=True), classify


def rows_after_a_filter():
    rows = {index: row(index) for index in range(12) if index % 3}
    return MLP(), DataLoader(Rows(lambda i: rows[i], count=8), batch_size=4), classify


def slow_storage():
    def read(index):
        time.sleep(30)
        return row(index)

    loader = DataLoader(Rows(read), batch_size=4, num_workers=1, timeout=1)
    return MLP(), loader, classify


def prefetch_without_workers():
    return MLP(), DataLoader(Rows(row), batch_size=4, prefetch_factor=4), classify


def own_collate_returns_nothing():
    def collate(samples):
        torch.stack([each["x"] for each in samples])

    return MLP(), DataLoader(Rows(row), batch_size=4, collate_fn=collate), classify


def own_collate_stacks_other_sizes():
    def collate(samples):
        images = torch.stack([image for image, _ in samples])
        return images, torch.tensor([label for _, label in samples])

    data = Rows(lambda i: (torch.rand(3, 8 + (i == 3), 8), i % CLASSES))
    return MLP(), DataLoader(data, batch_size=4, collate_fn=collate), nn.CrossEntropyLoss()
