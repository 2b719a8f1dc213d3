"""A plain training loop, as people write them: `kind` is one of the healthy ways, `fault` a plant."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

import torch
from arguments import options
from torch import nn
from torch.nn import functional as F

args = options(steps=12, every=4, init_from="")
kind, fault = args.kind, args.fault
torch.manual_seed(0)

if fault == "import":
    import no_such_module  # noqa: F401
if fault == "terminal":
    input("Continue? ")
if fault == "no steps":
    time.sleep(3600)
if fault == "data file":
    open("no_such_data.bin", "rb")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16) if kind == "layer norm" else nn.BatchNorm1d(16)
        self.head = nn.Linear(16, 4)
        self.drop = nn.Dropout(0.1 if kind == "dropout" else 0.0)
        lasting = fault != "counter not saved"
        self.register_buffer("seen", torch.zeros(()), persistent=lasting)
        if kind == "frozen":
            self.body.requires_grad_(False)
        if kind == "tied":
            self.decode = nn.Linear(4, 16)
            self.decode.weight = nn.Parameter(self.head.weight.T.contiguous())

    def forward(self, x: Any) -> Any:
        if self.training:
            self.seen += 1
        return self.head(self.drop(torch.relu(self.norm(self.body(x)))))


model: Any = Model()
if kind == "bf16":
    model = model.bfloat16()
if kind == "compiled":
    model = torch.compile(model, backend="eager")
dtype = next(model.parameters()).dtype
plain = getattr(model, "_orig_mod", model)


def groups() -> Any:
    trained = [p for p in model.parameters() if p.requires_grad]
    if kind != "two groups" and fault != "groups":
        return trained
    decayed = [p for p in trained if p.dim() > 1]
    others = [p for p in trained if p.dim() <= 1]
    pair = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    loading = fault == "groups" and os.path.exists(os.path.join(args.out, "last.pt"))
    return pair[::-1] if loading else pair


if kind == "momentum":
    optimizer: Any = torch.optim.SGD(groups(), lr=0.05, momentum=0.9)
elif kind == "lbfgs":
    optimizer = torch.optim.LBFGS(groups(), lr=0.1, max_iter=2)
elif kind == "fused":
    optimizer = torch.optim.AdamW(groups(), lr=1e-3, fused=True)
else:
    optimizer = torch.optim.AdamW(groups(), lr=1e-3)
critic = nn.Linear(4, 1) if kind == "two optimizers" or fault == "second optimizer" else None
second = torch.optim.Adam(critic.parameters(), lr=1e-3) if critic is not None else None
schedulers = {
    "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps),
    "one cycle": lambda: torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, args.steps + 1),
    "plateau": lambda: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1),
    "no schedule": lambda: None,
    "warm-up": lambda: torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min(1.0, (n + 1) / 8)
    ),
}
usual = lambda: torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, args.steps)  # noqa: E731
schedule: Any = schedulers.get(kind, usual)()
average = (
    torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    if kind == "average" or fault == "average lost"
    else None
)
scaled = kind == "scaler" or fault == "scaler lost"
scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=3) if scaled else None
teacher = Model().eval() if kind == "teacher" else None

os.makedirs(args.out, exist_ok=True)
path = os.path.join(args.out, "last.pt")


def state(step: int) -> dict[str, Any]:
    weights = model.state_dict()
    if fault == "half weights":
        weights = {name: value for name, value in weights.items() if not name.startswith("head")}
    if fault == "prefix":
        weights = {"module." + name: value for name, value in weights.items()}
    if fault == "rounded":
        weights = {n: v.bfloat16() if v.is_floating_point() else v for n, v in weights.items()}
    if fault == "buffers":
        weights = dict(model.named_parameters())
    if fault == "first weights":
        weights = {n: torch.zeros_like(v) if "head" in n else v for n, v in weights.items()}
    saved = {"model": weights, "optimizer": optimizer.state_dict(), "step": step}
    if schedule is not None:
        saved["schedule"] = schedule.state_dict()
    if average is not None and fault != "average lost":
        saved["average"] = average.state_dict()
    if scaler is not None and fault != "scaler lost":
        saved["scaler"] = scaler.state_dict()
    if second is not None and critic is not None:
        saved["critic"] = critic.state_dict()
        saved["second"] = second.state_dict()
    if fault == "unpicklable":
        saved["callback"] = lambda: None
    return saved


def save(step: int) -> None:
    if fault == "no directory":
        torch.save(state(step), os.path.join(args.out, "deep", "er", "last.pt"))
        return
    if kind == "directories":
        directory = os.path.join(args.out, f"checkpoint-{step}")
        os.makedirs(directory + ".tmp", exist_ok=True)
        torch.save(state(step), os.path.join(directory + ".tmp", "state.pt"))
        os.replace(directory + ".tmp", directory)
        for old in sorted(glob.glob(os.path.join(args.out, "checkpoint-*")), key=number)[:-2]:
            shutil.rmtree(old)
        return
    if kind == "dcp":
        import torch.distributed.checkpoint as dcp

        dcp.save(state(step), checkpoint_id=os.path.join(args.out, f"step-{step}"), no_dist=True)
        return
    if kind == "safetensors":
        from safetensors.torch import save_file

        save_file(model.state_dict(), os.path.join(args.out, "model.safetensors"))
        rest = {name: value for name, value in state(step).items() if name != "model"}
        torch.save(rest, os.path.join(args.out, "optimizer.pt"))
        return
    torch.save(state(step), path + ".tmp")
    if fault == "torn":
        with open(path + ".tmp", "r+b") as file:
            file.truncate(os.path.getsize(path + ".tmp") // 2)
    os.replace(path + ".tmp", path)
    if fault == "file too many":
        shutil.copy(path, os.path.join(args.out, "best.pt"))
        os.truncate(os.path.join(args.out, "best.pt"), 100)


def number(name: str) -> int:
    return int(name.rpartition("-")[2])


def newest() -> Any:
    """What an earlier run saved; None where nothing is found."""
    if kind == "never loads":
        return None
    if fault == "pattern":
        found = sorted(glob.glob(os.path.join(args.out, "checkpoint_*.pt")))
        return torch.load(found[-1]) if found else None
    if kind == "init_from" and args.init_from != "resume":
        return None
    if kind == "directories":
        found = sorted(glob.glob(os.path.join(args.out, "checkpoint-*")), key=number)
        return torch.load(os.path.join(found[-1], "state.pt")) if found else None
    if kind == "dcp":
        found = sorted(glob.glob(os.path.join(args.out, "step-*")), key=number)
        if not found:
            return None
        import torch.distributed.checkpoint as dcp

        warm = state(0)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        rates = [group["lr"] for group in optimizer.param_groups]
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        optimizer.step()
        optimizer.zero_grad()
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        model.load_state_dict(weights)
        warm = state(0)
        dcp.load(warm, checkpoint_id=found[-1], no_dist=True)
        return warm
    if kind == "safetensors":
        weights = os.path.join(args.out, "model.safetensors")
        if not os.path.exists(weights):
            return None
        from safetensors.torch import load_file

        rest = torch.load(os.path.join(args.out, "optimizer.pt"))
        return {"model": load_file(weights), **rest}
    return torch.load(path) if os.path.exists(path) else None


start = 0
saved = newest()
if saved is not None:
    if fault == "missing key":
        saved["modle"]
    loose = fault in ("prefix", "half weights", "buffers", "unwrapped")
    model.load_state_dict(saved["model"], strict=not loose)
    if fault != "optimizer lost":
        optimizer.load_state_dict(saved["optimizer"])
    if fault == "moments lost":
        for held in optimizer.state.values():
            held["exp_avg_sq"].zero_()
    if schedule is not None and fault != "schedule lost":
        schedule.load_state_dict(saved["schedule"])
    if fault == "rate lost":
        for group in optimizer.param_groups:
            group["lr"] = 1e-3
        schedule = None
    if average is not None and fault != "average lost":
        average.load_state_dict(saved["average"])
    if scaler is not None and fault != "scaler lost":
        scaler.load_state_dict(saved["scaler"])
    if second is not None and critic is not None:
        critic.load_state_dict(saved["critic"])
        if fault != "second optimizer":
            second.load_state_dict(saved["second"])
    start = 0 if fault == "counter" else saved["step"]
    if fault == "half precision":
        model = model.half().float()
    if fault == "fresh head":
        model.head.reset_parameters()

stopping = False


def on_signal(number: int, frame: Any) -> None:
    global stopping
    stopping = True


def save_and_end(number: int, frame: Any) -> None:
    save(done)
    sys.exit(0)


def half_and_end(number: int, frame: Any) -> None:
    save(done)
    os.truncate(path, os.path.getsize(path) // 2)
    sys.exit(0)


handlers = {"flag": on_signal, "handler": save_and_end, "half at signal": half_and_end}
name = fault if fault in handlers else kind
if name in handlers:
    signal.signal(signal.SIGTERM, handlers[name])
if fault == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if fault == "handler hangs":
    signal.signal(signal.SIGTERM, lambda number, frame: time.sleep(3600))
if fault == "leaves a process":
    subprocess.Popen(
        [sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(3600)"]
    )

generator = torch.Generator().manual_seed(1)


def batch() -> tuple[Any, Any]:
    x = torch.randn(4, 8, generator=generator)
    return x.to(dtype), torch.randint(0, 4, (4,), generator=generator)


class Rows(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4 * args.steps

    def __getitem__(self, index: int) -> Any:
        g = torch.Generator().manual_seed(index)
        return torch.randn(8, generator=g), torch.randint(0, 4, (), generator=g)


workers = 2 if kind == "workers" else 0
loader = iter(torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=workers))


def evaluate(step: int) -> None:
    model.eval()
    with torch.no_grad():
        if fault == "evaluation raises":
            model(torch.randn(4, 9))
        kept = []
        for number in range(12 if fault == "evaluation grows" else 2):
            out = model(batch()[0])
            if fault == "evaluation grows":
                kept.append(out.float().repeat(400_000 + number, 1).clone())
            if fault == "evaluation hangs":
                time.sleep(3600)
        if fault == "metric raises":
            {}["accuracy"]
    model.train()


accumulate = 4 if kind == "accumulation" else 1
if kind == "evaluates first":
    evaluate(0)
done = start
for step in range(start, args.steps):
    if fault == "third step" and step == 3:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    if fault == "exit code" and step == 5:
        os._exit(3)
    if fault == "killed" and step == 5:
        os.kill(os.getpid(), signal.SIGKILL)

    def closure() -> Any:
        optimizer.zero_grad()
        total = torch.zeros(())
        for _ in range(accumulate):
            x, y = next(loader) if kind == "workers" else batch()
            loss = F.cross_entropy(model(x).float(), y)
            if teacher is not None:
                with torch.no_grad():
                    target = teacher(x).softmax(-1)
                loss = loss + F.kl_div(model(x).log_softmax(-1), target, reduction="batchmean")
            if critic is not None:
                loss = loss + critic(model(x)).pow(2).mean()
            (scaler.scale(loss / accumulate) if scaler else loss / accumulate).backward()
            total = total + loss.detach()
        return total

    if kind == "lbfgs":
        optimizer.step(closure)
        loss = torch.ones(())
    else:
        loss = closure()
        if kind == "clips":
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
    if second is not None:
        second.step()
        second.zero_grad()
    if average is not None:
        average.update_parameters(model)
    done = step + 1
    if fault == "schedule behind" and done % args.every == 0:
        save(done)
    if schedule is not None:
        schedule.step(loss) if kind == "plateau" else schedule.step()
    if done % args.every == 0 and kind != "only at the end":
        if kind != "never evaluates":
            evaluate(done)
        if fault != "schedule behind":
            save(done)
    if stopping:
        save(done)
        sys.exit(0)
if kind == "only at the end":
    save(done)
if fault == "hangs at the end":
    time.sleep(3600)
