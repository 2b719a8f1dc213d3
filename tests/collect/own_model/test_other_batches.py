"""A first batch that shows less than others of its loader: images without an object."""

from __future__ import annotations

import pytest
from own_code import Own, completes, judged

from doctor.checks.training import own_model as checks
from doctor.judge.check import Status

pytestmark = pytest.mark.slow

DETECTOR = """
    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.score, self.size = nn.Linear(6, 8), nn.Linear(8, 1), nn.Linear(8, 2)
        def forward(self, image, present, size):
            h = self.body(image).relu()
            score = nn.functional.binary_cross_entropy_with_logits(self.score(h), present)
            wrong = ((self.size(h) - size).abs() * present).sum()
            return {{"loss": {loss}}}

    class Scenes(torch.utils.data.Dataset):
        def __len__(self):
            return 24
        def __getitem__(self, i):
            g = torch.Generator().manual_seed(i)
            return {{"image": torch.randn(6, generator=g), "size": torch.ones(2),
                    "present": torch.tensor([float({present})])}}

    def make():
        return Detector(), torch.utils.data.DataLoader(Scenes(), batch_size=2)
    """


def test_a_head_that_later_batches_reach(own: Own) -> None:
    record = own(DETECTOR.format(loss="score + wrong", present="i > 7"))
    assert set(record.in_other_batches) == {"size.weight", "size.bias"}
    verdict = judged(checks.own_gradients.GRADIENTS_REACH_ALL, record)
    assert verdict.status is Status.PASS, verdict.summary
    assert "other batches of the loader" in verdict.summary


def test_a_first_batch_without_a_loss(own: Own) -> None:
    record = own(DETECTOR.format(loss="wrong + score * present.sum()", present="i > 7"))
    assert record.batch_number == 4
    verdict = judged(checks.LOSS_FINITE, record)
    assert verdict.status is Status.PASS, verdict.summary
    assert "batch 5 of the loader" in verdict.summary


def test_a_head_that_no_batch_reaches(own: Own) -> None:
    record = own(DETECTOR.format(loss="score + wrong", present="0"))
    verdict = judged(checks.own_gradients.GRADIENTS_REACH_ALL, record)
    assert verdict.status is Status.FAIL
    assert "size.weight" in verdict.summary


def test_a_loss_that_is_0_in_every_batch(own: Own) -> None:
    record = own(DETECTOR.format(loss="wrong", present="0"))
    assert record.batch_number == 0
    assert judged(checks.LOSS_FINITE, record).status is Status.FAIL


EVALUATED = """
class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
    def forward(self, x, labels):
        return nn.functional.cross_entropy(self.b(self.norm(self.a(x))), labels)
def make():
    model = Normed()
    {}
    return model, batch()
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("model.eval()", True),
        ("model.norm.eval()", False),
        ("model.eval(); model.train()", False),
        ("model.eval(); model.a.requires_grad_(False)", False),
    ],
)
def test_a_model_that_is_left_in_evaluation_mode(line: str, found: bool, own: Own) -> None:
    verdict = completes(own(EVALUATED.format(line)))
    assert (verdict.status is Status.WARN) is found, verdict.summary
    assert ("BatchNorm1d" in verdict.summary) is found
