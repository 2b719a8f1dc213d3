"""A LightningModule whose training_step calls backward() and its optimizers itself."""

from __future__ import annotations

import pytest
from own_code import Own, completes, judged, smoke_of

from doctor.checks.training import own_model as checks
from doctor.judge.check import Status

pytestmark = pytest.mark.slow

ADVERSARIAL = """
    from torch.nn.functional import binary_cross_entropy_with_logits as entropy

    class Module(nn.Module):
        automatic_optimization = {automatic}
        trainer = None

        def __init__(self):
            super().__init__()
            self.generator, self.critic = nn.Linear(4, 8), nn.Linear(8, 1)

        def training_step(self, batch, index):
            first, second = self.optimizers()
            ones, zeros = torch.ones(len(batch), 1), torch.zeros(len(batch), 1)
            self.toggle_optimizer(second)
            fake = self.generator(torch.randn(len(batch), 4)).detach()
            loss = entropy(self.critic(batch), ones) + entropy(self.critic(fake), zeros)
            second.zero_grad()
            self.manual_backward(loss)
            second.step()
            self.untoggle_optimizer(second)
            if {pause}:
                return
            self.toggle_optimizer(first)
            {made}
            first.zero_grad()
            self.manual_backward(entropy(self.critic(fake), ones))
            first.step()
            self.untoggle_optimizer(first)
            self.log("index", index)

        def configure_optimizers(self):
            parts = self.generator, self.critic
            return [torch.optim.Adam(each.parameters(), 1e-3) for each in parts], []

        def train_dataloader(self):
            return [torch.randn(6, 8), torch.randn(6, 8)]

    def make():
        return Module()
"""
MADE = "fake = self.generator(torch.randn(len(batch), 4))"
VALUES = {"automatic": "False", "pause": "False", "made": MADE}


def source(**changes: str) -> str:
    text = ADVERSARIAL
    for name, value in (VALUES | changes).items():
        text = text.replace("{" + name + "}", value)
    return text


@pytest.mark.parametrize("pause", ["False", "(index + 1) % 5"])
def test_each_optimizer_steps_as_training_step_says(pause: str, own: Own) -> None:
    record = own(source(pause=pause))
    for check in checks.CHECKS:
        assert judged(check, record).status is Status.PASS, judged(check, record).summary
    optimizer = smoke_of(record).optimizer
    assert optimizer is not None
    assert optimizer.name == "Adam, Adam"


def test_a_generator_that_its_loss_does_not_reach(own: Own) -> None:
    record = own(source(made=f"{MADE}.detach() + 0 * next(self.generator.parameters()).sum()"))
    verdict = judged(checks.CHECKS[2], record)
    assert verdict.status is Status.FAIL
    assert "generator.bias" in verdict.summary
    assert "detach" in verdict.summary
    assert "backward" not in verdict.summary


def test_an_error_in_training_step(own: Own) -> None:
    verdict = completes(own(source(made="fake = self.generator(batch)")))
    assert verdict.status is Status.FAIL
    assert "6x8 and 4x8" in verdict.summary


@pytest.mark.parametrize(("version", "built"), [("2.6.6", False), ("1.9.5", True)])
def test_several_optimizers_that_lightning_steps_itself(
    version: str, built: bool, own: Own
) -> None:
    package = f"""
    import types
    sys.modules["lightning"] = types.ModuleType("lightning")
    sys.modules["lightning"].__version__ = "{version}"
    """
    text = source(automatic="True").replace("class Module(nn.Module):", "class Module(Base):")
    base = """
    class LightningModule(nn.Module):
        pass
    LightningModule.__module__ = "lightning.pytorch"
    Base = LightningModule
    """
    record = own(package + base + text)
    assert record.built.ok is built
    if not built:
        verdict = completes(record)
        assert verdict.status is Status.FAIL
        assert "automatic_optimization = False" in (verdict.fix or "")


GAN = """
    import pytorch_lightning as pl
    class Gan(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.g, self.d = nn.Linear(4, 2), nn.Linear(2, 1)
        def training_step(self, batch, index):
            g, d = self.optimizers()
            fake = self.g(torch.randn(len(batch), 4))
            for optimizer, values in ((g, fake), (d, {critic})):
                loss = nn.functional.softplus(self.d(values)).mean()
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()
        def configure_optimizers(self):
            make = lambda part: torch.optim.Adam(part.parameters(), lr=1e-3)
            return make(self.g), make(self.d)
        def train_dataloader(self):
            return torch.utils.data.DataLoader(torch.randn(16, 2), batch_size=8)
    def make():
        return Gan()
    """


def test_what_two_losses_of_a_manual_step_share_is_named(own: Own) -> None:
    assert completes(own(GAN.format(critic="fake.detach()"))).status is Status.PASS
    verdict = completes(own(GAN.format(critic="fake")))
    assert (verdict.fix or "").startswith("Detach fake in the loss")
