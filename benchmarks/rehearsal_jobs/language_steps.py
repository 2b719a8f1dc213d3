"""A small language model in one file: steps, accumulation, a rate by hand, one checkpoint file."""

from __future__ import annotations

import math
import os
import signal
import sys
import time

import torch
import torch.nn.functional as F
from arguments import options
from torch import nn

args = options()
# -----------------------------------------------------------------------------
max_iters, eval_interval, eval_iters, accumulation = 14, 3, 3, 2
batch_size, block_size, vocab_size, n_embd, n_head, dropout = 12, 32, 384, 48, 4, 0.1
val_batch_size, used_tokens = 64, 40
learning_rate, min_lr, warmup_iters, grad_clip = 8e-3, 8e-4, 2, 1.0
compiles = args.kind in ("compiled", "prefix stripped") or args.fault == "prefix, not strict"
scales = args.kind == "scaler" or args.fault == "scaler lost"
# -----------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd)
        )

    def forward(self, x):
        b, t, c = x.shape
        heads = self.c_attn(self.ln_1(x)).view(b, t, 3, n_head, c // n_head)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.dropout(self.c_proj(y.transpose(1, 2).reshape(b, t, c)), dropout, self.training)
        return x + F.dropout(self.mlp(self.ln_2(x)), dropout, self.training)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.h, self.ln_f = nn.ModuleList([Block(), Block()]), nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        nn.init.normal_(self.wte.weight, std=0.02)
        self.lm_head.weight = self.wte.weight

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    @torch.no_grad()
    def generate(self, idx, count):
        for _ in range(count):
            seen = idx if args.fault == "generates too long" else idx[:, -block_size:]
            logits, _ = self(seen)
            idx = torch.cat((idx, logits[:, -1].argmax(-1, keepdim=True)), 1)
        return idx


def get_batch(split, number):
    """Walks on a ring of tokens with a stride per row; the first third of a row is its prompt."""
    g = torch.Generator().manual_seed(number + (0 if split == "train" else 1_000_000))
    count = batch_size if split == "train" else val_batch_size
    start = torch.randint(used_tokens, (count, 1), generator=g)
    stride = torch.randint(1, 4, (count, 1), generator=g)
    rows = (start + stride * torch.arange(block_size + 1)) % used_tokens
    x, y = rows[:, :-1].contiguous(), rows[:, 1:].clone()
    prompt = block_size if args.fault == "all masked" else block_size // 3
    y[:, :prompt] = -100
    return x, y


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / warmup_iters
    done = (it - warmup_iters) / (max_iters - warmup_iters)
    return min_lr + 0.5 * (1 + math.cos(math.pi * done)) * (learning_rate - min_lr)


history = []


def estimate_loss():
    model.eval()
    keeps = args.fault == "logits kept"
    losses = torch.zeros(eval_iters)
    with torch.set_grad_enabled(keeps):
        for k in range(eval_iters):
            logits, loss = model(*get_batch("val", k))
            losses[k] = loss.item()
            if keeps:
                history.append((logits, loss))
    raw_model.generate(get_batch("val", 0)[0][:2], 4)
    model.train()
    return losses.mean().item()


torch.manual_seed(1337)
os.makedirs(args.out, exist_ok=True)
ckpt_path = os.path.join(args.out, "ckpt.pt")
raw_model = GPT()
checkpoint = torch.load(ckpt_path, weights_only=True) if os.path.exists(ckpt_path) else None
iter_num = checkpoint["iter_num"] if checkpoint else 0
if checkpoint:
    state = checkpoint["model"]
    if args.kind == "prefix stripped":
        state = {key.removeprefix("_orig_mod."): value for key, value in state.items()}
    raw_model.load_state_dict(state, strict=args.fault != "prefix, not strict")
decayed = [p for p in raw_model.parameters() if p.dim() >= 2]
others = [p for p in raw_model.parameters() if p.dim() < 2]
groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95))
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2, enabled=scales)
if checkpoint:
    optimizer.load_state_dict(checkpoint["optimizer"])
    if args.fault != "scaler lost":
        scaler.load_state_dict(checkpoint["scaler"])
    print(f"resuming at iteration {iter_num}", flush=True)
model = torch.compile(raw_model, backend="eager") if compiles else raw_model


def save(it):
    whole = model if args.kind == "prefix stripped" or "prefix" in args.fault else raw_model
    content = {"model": whole.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": it}
    content["scaler"] = scaler.state_dict()
    torch.save(content, ckpt_path + ".new")
    os.replace(ckpt_path + ".new", ckpt_path)


asked = []
if args.kind == "handler 143":
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))

while iter_num < max_iters:
    t0, lr = time.time(), get_lr(iter_num)
    for group in optimizer.param_groups:
        group["lr"] = lr
    for micro in range(accumulation):
        with torch.autocast("cpu", dtype=torch.float16, enabled=scales):
            _, loss = model(*get_batch("train", iter_num * accumulation + micro))
        scaler.scale(loss / accumulation).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(raw_model.parameters(), grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    time.sleep(max(0.0, 0.12 - (time.time() - t0)))
    print(f"iter {iter_num}: loss {loss.item():.4f}, lr {lr:.2e}", flush=True)
    iter_num += 1
    if iter_num % eval_interval == 0 or iter_num == max_iters:
        print(f"step {iter_num}: val loss {estimate_loss():.4f}", flush=True)
        save(iter_num - 1 if args.fault == "step repeated" else iter_num)
    if asked:
        save(iter_num)
        sys.exit(143)
