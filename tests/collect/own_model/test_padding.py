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
