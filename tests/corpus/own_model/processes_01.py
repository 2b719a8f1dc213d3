"""Trainings that end or stop their process."""

from __future__ import annotations

import threading

import torch
from blocks import MLP, classify, points


def crashes_in_the_loss():
    import ctypes

    return MLP(), points(), lambda model, batch: ctypes.string_at(0)


def aborts():
    import os

    def loss(model, batch):
        print("about to abort")
        os.abort()

    return MLP(), points(), loss


def exits_quietly():
    import os

    os._exit(0)


def deadlocks():
    lock = threading.Lock()

    def loss(model, batch):
        lock.acquire()
        lock.acquire()
        return classify(model, batch)

    return MLP(), points(), loss


def waits_for_a_queue():
    import queue

    queue.Queue().get()


def worker_dies():
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            raise ValueError(f"sample {index} is broken")

    return MLP(), torch.utils.data.DataLoader(Data(), batch_size=2)
