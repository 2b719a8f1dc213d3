"""A generator against a discriminator: two networks, two optimizers, a directory a checkpoint."""

from __future__ import annotations

import json
import queue
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import torch
from arguments import options
from torch import nn

opt = options()
NZ, SIDE, STEPS, EVERY, BATCH = 16, 8, 15, 4, 24
bce = nn.BCEWithLogitsLoss()


def weights_init(m):
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, 0.0, 0.08)
    elif isinstance(m, nn.BatchNorm1d):
        nn.init.normal_(m.weight, 1.0, 0.02)


def make_nets():
    generator = nn.Sequential(
        nn.Linear(NZ, 64, bias=False), nn.BatchNorm1d(64), nn.LeakyReLU(0.2),
        nn.Linear(64, SIDE * SIDE), nn.Tanh(),
    )  # fmt: skip
    discriminator = nn.Sequential(
        nn.Linear(SIDE * SIDE, 64), nn.LeakyReLU(0.2), nn.Linear(64, 32), nn.LeakyReLU(0.2),
        nn.Linear(32, 1),
    )  # fmt: skip
    return generator.apply(weights_init), discriminator.apply(weights_init)


def real_batch(step):
    """Soft stripes in random directions."""
    g = torch.Generator().manual_seed(500 + step)
    phase, slope = torch.rand(BATCH, 1, 1, generator=g) * 6, torch.randn(BATCH, 1, 1, generator=g)
    line = torch.linspace(-2, 2, SIDE)
    picture = torch.sin(phase + slope * line.view(1, SIDE, 1) + 1.5 * line.view(1, 1, SIDE))
    return picture.flatten(1) * 0.9


class Album(threading.Thread):
    """Writes sample pictures in the background."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.todo = folder, queue.Queue()

    def run(self):
        while (item := self.todo.get()) is not None:
            name, picture = item
            grey = ((picture.view(-1, SIDE) + 1) * 127.5).to(torch.uint8)
            header = f"P5 {SIDE} {grey.shape[0]} 255\n".encode()
            (self.folder / f"{name}.pgm").write_bytes(header + bytes(grey.flatten().tolist()))


torch.manual_seed(11)
out = Path(opt.out)
out.mkdir(parents=True, exist_ok=True)
netG, netD = make_nets()
optG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
optD = torch.optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.999))
parts = {"netG": netG, "netD": netD, "optG": optG, "optD": optD}
if opt.kind == "two schedules":
    parts["schedG"] = schedG = torch.optim.lr_scheduler.ExponentialLR(optG, 0.97)
    parts["schedD"] = schedD = torch.optim.lr_scheduler.LinearLR(optD, 1.0, 0.5, STEPS)
if opt.fault == "one optimizer saved":
    del parts["optD"]
fixed_noise = torch.randn(8, NZ, generator=torch.Generator().manual_seed(3))


def save(step):
    if opt.kind == "one file":
        content = {name: part.state_dict() for name, part in parts.items()} | {"step": step}
        torch.save(content, out / "gan.tmp")
        (out / "gan.tmp").rename(out / "gan.pth")
        return
    unfinished = out / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    for name, part in parts.items():
        torch.save(part.state_dict(), unfinished / f"{name}.pth")
    (unfinished / "state.json").write_text(json.dumps({"step": step}))
    unfinished.rename(out / f"step_{step:05d}")
    if opt.kind == "keeps last two":
        for old in sorted(out.glob("step_*"))[:-2]:
            shutil.rmtree(old)


def resume():
    if opt.kind == "one file":
        if not (out / "gan.pth").exists():
            return 0
        content = torch.load(out / "gan.pth", weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(content[name])
        return content["step"]
    found = sorted(out.glob("step_*"))
    if not found:
        return 0
    for name, part in parts.items():
        part.load_state_dict(torch.load(found[-1] / f"{name}.pth", weights_only=True))
    return json.loads((found[-1] / "state.json").read_text())["step"]


def sample(step):
    netG.eval()
    with torch.no_grad():
        pictures = netG(fixed_noise)
        if opt.fault == "no folder for samples":
            torch.save(pictures, out / "samples" / f"fake_{step}.pt")
        elif album:
            album.todo.put((f"fake_{step}", pictures))
    netG.train()


stopping = []
album = None
if opt.fault == "writer waits":
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    album = Album(out)
    album.start()

begin = resume()
print(f"starts at step {begin}", flush=True)
for step in range(begin, STEPS):
    real = real_batch(step)
    noise = torch.randn(BATCH, NZ, generator=torch.Generator().manual_seed(9000 + step))
    fake = netG(noise)
    ones, zeros = torch.full((BATCH, 1), 0.9), torch.zeros(BATCH, 1)

    optD.zero_grad()
    lossD = bce(netD(real), ones) + bce(netD(fake.detach()), zeros)
    lossD.backward()
    optD.step()

    optG.zero_grad()
    if opt.fault == "generator detached":
        fake = fake.detach()
    lossG = bce(netD(fake), torch.ones(BATCH, 1))
    lossG.backward()
    optG.step()

    if opt.kind == "two schedules":
        schedG.step()
        schedD.step()
    time.sleep(0.1)
    print(f"[{step + 1}/{STEPS}] D {lossD.item():.4f} G {lossG.item():.4f}", flush=True)
    if (step + 1) % EVERY == 0 or step + 1 == STEPS:
        save(step + 1)
        sample(step + 1)
    if stopping:
        print("stopped, bye", flush=True)
        sys.exit(0)
if album:
    album.todo.put(None)
    album.join()
