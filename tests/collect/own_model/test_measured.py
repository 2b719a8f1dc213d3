"""What is measured of the user's own training: settings, batch, memory, a save."""

from __future__ import annotations

import platform
import sys

import pytest
from own_code import Own, smoke_of

from doctor._util.records import Unknown
from doctor.facts.own_model import MemoryPoint

pytestmark = pytest.mark.slow


def test_the_switches_that_the_code_set_are_the_settings(own_process: Own) -> None:
    record = own_process("""
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        torch.backends.cuda.enable_cudnn_sdp(False)
        def make():
            return Net(), batch(), loss
        def loss(module, inputs):
            torch.use_deterministic_algorithms(True)
            return module(**inputs)
        """)
    assert record.settings
    assert record.settings.when == "after the model's code"
    assert record.settings.tf32_matmul is True
    assert record.settings.sdp_enabled["cudnn"] is False
    assert record.settings.sdp_enabled["math"] is True
    assert record.settings.deterministic is True


def test_the_batch_and_the_memory_and_the_save_are_measured(own: Own) -> None:
    record = own("""
        class Wide(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
            def forward(self, x):
                for layer in self.layers:
                    x = layer(x).relu()
                return x.pow(2).mean()
        def make():
            return Wide(), {"x": torch.full((32768, 64), 0.5)}
        """)
    assert [(each.name, each.shape) for each in record.batch] == [("x", (32768, 64))]
    assert (record.batch[0].low, record.batch[0].high, record.batch[0].nonfinite) == (0.5, 0.5, 0)
    if sys.platform != "linux":
        assert isinstance(record.points, Unknown)
        return
    small, large = record.points  # type: ignore[misc]
    assert isinstance(small, MemoryPoint)
    assert (small.batch, large.batch) == (16384, 32768)
    activations = 16384 * 64 * 4 * 4  # at least one output of each of four layers
    assert large.peak_bytes - small.peak_bytes > 0.9 * activations
    weights = 4 * (64 * 64 + 64) * 4
    assert weights < (record.saved_weights or 0) < 1.1 * weights
    assert 2 * weights < (record.saved_optimizer or 0) < 2.2 * weights


def test_a_large_save_is_summed_and_not_serialized(own_process: Own) -> None:
    record = own_process("""
        class Large(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(1 << 8, 1 << 12)
                self.tied = self.table
            def forward(self, x):
                return self.table(x).pow(2).mean()
        def make():
            import importlib
            name = "_doctor_probes.training_side.stages.memory_points"
            importlib.import_module(name).MAX_SERIALIZED = 1 << 20
            return Large(), {"x": torch.arange(64).view(2, 32)}
        """)
    weights = (1 << 20) * 4
    assert record.saved_weights is not None
    assert record.saved_weights == weights
    assert record.saved_optimizer == 2 * weights + 4  # and the count of steps


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        ("Net(), lambda module: module(**batch())", "no first dimension"),
        ("Net(), batch(), once", "RuntimeError: enough"),
    ],
)
def test_memory_that_cannot_be_measured_is_unknown(make: str, reason: str, own: Own) -> None:
    record = own(f"""
        taken = []
        def once(module, inputs):
            taken.append(1)
            if len(taken) > 3:
                raise RuntimeError("enough")
            return module(**inputs)
        def make():
            return {make}
        """)
    assert smoke_of(record).completed
    assert isinstance(record.points, Unknown)
    assert reason in record.points.reason


def test_a_death_after_the_steps_keeps_their_record(own_process: Own) -> None:
    record = own_process("""
        taken = []
        def loss(module, inputs):
            taken.append(1)
            if len(taken) > 3:
                os._exit(5)
            return module(**inputs)
        def make():
            return Net(), batch(), loss
        """)
    assert smoke_of(record).completed
    assert isinstance(record.points, Unknown)
    assert "exit status 5" in record.points.reason


@pytest.mark.skipif(platform.machine() != "x86_64", reason="chooses kernels of x86")
def test_steps_without_a_kernel_of_this_cpu_are_run_in_fp32(
    own_process: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    record = own_process(
        """
        class Reader(nn.Module):
            def __init__(self):
                super().__init__()
                self.read, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 3)
            def forward(self, x, labels):
                states, _ = self.read(x[:, None])
                return {"loss": nn.functional.cross_entropy(self.head(states[:, -1]), labels)}
        def make():
            return Reader(), batch()
        """,
        precision="bf16",
    )
    assert (smoke_of(record).precision, smoke_of(record).completed) == ("fp32", True)
    assert "LSTM" in record.without_kernel
