"""Files that train while they are imported: they are not imported, or stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_code import Own, completes

from doctor.judge.check import Status

pytestmark = pytest.mark.slow


def test_a_flat_script_is_not_imported(own_process: Own, tmp_path: Path) -> None:
    record = own_process("""
        open("was-run", "w").close()
        model = Net()
        for _ in range(3):
            loss = model(**batch())["loss"]
            loss.backward()
        def make():
            return model, batch()
        """)
    verdict = completes(record)
    assert verdict.status is Status.FAIL
    assert "it was not imported" in verdict.summary
    assert "--factory-for" in verdict.fix
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize(
    "training",
    [
        "getattr(loss, 'back' + 'ward')()",
        "optimizer.step()",
        "torch.save(model.state_dict(), 'model.pt')",
    ],
)
def test_a_training_that_the_syntax_hides_is_stopped(
    training: str, own_process: Own, tmp_path: Path
) -> None:
    (tmp_path / "model.pt").write_text("the user's own")
    record = own_process(f"""
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = model(**batch())["loss"]
        try:
            {training}
        except Exception:
            pass
        open("went-on", "w").close()
        def make():
            return model, batch()
        """)
    verdict = completes(record)
    assert verdict.status is Status.FAIL
    assert "it was stopped there" in verdict.summary
    assert "train.py, line" in verdict.summary
    assert not (tmp_path / "went-on").exists()
    assert (tmp_path / "model.pt").read_text() == "the user's own"


def test_a_file_may_save_data_and_factories_may_train(own_process: Own) -> None:
    record = own_process("""
        torch.save(batch(), "cache.pt")
        def make():
            model = Net()
            model(**batch())["loss"].backward()
            torch.optim.SGD(model.parameters(), lr=0.1).step()
            return model, batch()
        """)
    assert completes(record).status is Status.PASS


def test_patched_writers_do_not_silence_the_doctor(own_process: Own) -> None:
    record = own_process("""
        import json, pickle
        json.dumps = json.dump = json.JSONEncoder.encode = lambda *a, **k: 1 / 0
        pickle.dumps = json.loads = os.write = None
        def make():
            return Net(), batch()
        """)
    assert completes(record).status is Status.PASS
