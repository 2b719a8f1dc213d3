"""The batch is put back after a step that changed it in place."""

from __future__ import annotations

import pytest
from own_code import Own, judged

from doctor.checks.training import own_model
from doctor.judge.check import Status

pytestmark = pytest.mark.slow

IN_PLACE = """
    def loss(module, batch):
        x, y = batch
        x.sub_(0.5).div_(0.1)
        return nn.functional.cross_entropy(module(x), y)

    def make():
        rows = [(torch.rand(4), n % 3) for n in range(8)]
        batch = {batch}
        return nn.Linear(4, 3), batch, loss
    """


@pytest.mark.parametrize(
    ("batch", "noted"),
    [
        ("torch.utils.data.DataLoader(rows, batch_size=8)", False),
        ("torch.rand(8, 4), torch.arange(8) % 3", True),
    ],
)
def test_a_step_that_changes_its_batch(batch: str, noted: bool, own: Own) -> None:
    record = own(IN_PLACE.replace("{batch}", batch))
    verdict = judged(own_model.LOSS_FINITE, record)
    assert verdict.status is Status.PASS
    assert record.trend is not None
    assert len(record.trend.losses) == 20
    assert record.changed_batch == (("[0]",) if noted else ())
    assert ("changes [0] of the batch in place" in verdict.summary) is noted
