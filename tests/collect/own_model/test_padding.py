"""Losses over padding, and what looks like one."""

from __future__ import annotations

import pytest
from own_code import Own, judged

from doctor.checks.training import own_model as checks
from doctor.judge.check import Status

pytestmark = pytest.mark.slow

TAGGER = """
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(12, 8, padding_idx={index})
            self.out = nn.Linear(8, 12)
        def forward(self, ids, mask):
            logits, gold = self.out(self.tokens(ids))[:, :-1], ids[:, 1:]
            return {{"loss": nn.functional.cross_entropy({arguments})}}
    def make():
        lengths = torch.tensor([9, 4, 6, 3])
        mask = torch.arange(9) < lengths[:, None]
        ids = torch.randint({low}, 12, (4, 9)) * ({fill})
        return Tagger(), {{"ids": ids, "mask": mask}}
    """
FLAT = "logits.reshape(-1, 12), gold.reshape(-1)"


@pytest.mark.parametrize(
    ("index", "arguments", "low", "fill", "found"),
    [
        ("0", FLAT, 1, "mask", True),
        ("None", FLAT, 1, "mask", False),  # the mask is one longer than the targets
        ("0", f"{FLAT}, ignore_index=0", 1, "mask", False),
        ("0", "logits.transpose(1, 2), gold.masked_fill(gold == 0, -100)", 1, "mask", False),
        ("None", FLAT, 0, "1", False),
        ("0", f"{FLAT}, weight=torch.arange(12.0)", 1, "mask", False),
    ],
)
def test_padding_tokens(
    index: str, arguments: str, low: int, fill: str, found: bool, own: Own
) -> None:
    record = own(TAGGER.format(index=index, arguments=arguments, low=low, fill=fill))
    verdict = judged(checks.LOSS_FINITE, record)
    assert (verdict.status is Status.WARN and "padding" in verdict.summary) is found, verdict


FRAMES = """
    class Voice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.GRU(5, 8, batch_first=True)
            self.out = nn.Linear(8, 3)
        def forward(self, x, lengths, frames):
            mask = (torch.arange(x.size(1)) < lengths[:, None]).unsqueeze(-1).float()
            y = self.out(self.a(x)[0])
            return {{"loss": {loss}}}
    def make():
        lengths = torch.tensor([12, 5, 8, 3])
        mask = (torch.arange(12) < lengths[:, None]).unsqueeze(-1)
        return Voice(), {{"x": torch.randn(4, 12, 5) * mask, "lengths": lengths,
                         "frames": torch.randn(4, 12, 3) * mask}}
    """


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        ("nn.functional.l1_loss(y, frames)", True),
        ("nn.functional.l1_loss(y * mask, frames)", False),
        ("(nn.functional.l1_loss(y, frames, reduction='none') * mask).sum() / mask.sum()", False),
    ],
)
def test_padded_frames(loss: str, found: bool, own: Own) -> None:
    verdict = judged(checks.LOSS_FINITE, own(FRAMES.format(loss=loss)))
    assert (verdict.status is Status.WARN and "padding" in verdict.summary) is found, verdict


@pytest.mark.parametrize(
    ("mask", "found"),
    [
        ("torch.ones(7, 7).tril().bool()", True),
        ("torch.ones(7, 7).triu(1).bool()", False),
        ("torch.ones(7, 7).tril(-1).bool()", False),  # the later keys and the own one
        ("torch.full((7, 7), float('-inf')).triu(1)", False),
    ],
)
def test_a_causal_mask_that_is_inverted(mask: str, found: bool, own: Own) -> None:
    record = own(f"""
        class Decoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.e, self.o = nn.Embedding(12, 8), nn.Linear(8, 12)
                self.a = nn.MultiheadAttention(8, 2, batch_first=True)
            def forward(self, ids):
                x = self.e(ids)
                return self.o(x + self.a(x, x, x, attn_mask={mask}, need_weights=False)[0])
        def make():
            ids = torch.stack([torch.randperm(12)[:8] for _ in range(4)])
            loss = lambda m, b: nn.functional.cross_entropy(
                m(b[:, :-1]).flatten(0, 1), b[:, 1:].flatten())
            return Decoder(), ids, loss
        """)
    verdict = judged(checks.LOSS_FINITE, record)
    assert ("a causal mask is inverted" in verdict.summary) is found, verdict
