"""What the guard counts of the first batches of a training, judged by the checks of data."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import doctor.guard
from doctor._util.records import Unknown
from doctor.catalog import of_families
from doctor.cli.guard_report import DATA_CHECKS, report_directory
from doctor.cli.options import ConfigFlags
from doctor.collect.guard_data import read_data
from doctor.collect.guard_records import read_records
from doctor.facts.data import Data
from doctor.judge.check import Status

pytestmark = pytest.mark.slow
CHECKS = {check.code: check for check in of_families("DAT")}
TOKENS, CLASSES, ROWS = 32, 100, 160


def generated(seed: int) -> Any:
    import torch

    return torch.Generator().manual_seed(seed)


def text(row: int, **changes: Callable[[Any], None]) -> dict[str, Any]:
    """A prompt that is not trained, an answer that is, and padding behind it."""
    import torch

    ids = torch.randint(1, CLASSES, (TOKENS,), generator=generated(row))
    labels, mask = ids.clone(), torch.ones(TOKENS, dtype=torch.long)
    mask[20 + row % 8 :] = 0
    labels[mask == 0] = -100
    labels[:6] = -100
    made = {"input_ids": ids, "labels": labels, "attention_mask": mask}
    for name, change in changes.items():
        change(made[name])
    return made


def fill(value: int) -> Callable[[Any], None]:
    return lambda tensor: tensor.fill_(value)


def trained_padding(row: int) -> dict[str, Any]:
    made = text(row)
    made["labels"] = made["input_ids"].clone()
    return made


def inverted(row: int) -> dict[str, Any]:
    made = text(row)
    made["labels"] = made["input_ids"].clone()
    made["labels"][8:] = -100
    return made


def one_token(row: int) -> dict[str, Any]:
    made = text(row, input_ids=fill(7))
    made["labels"][6:20] = 7
    return made


def image(row: int, label: int | None = None) -> tuple[Any, int]:
    import torch

    return torch.randn(3, 96, 96, generator=generated(row)), row % 10 if label is None else label


def in_255(row: int) -> tuple[Any, int]:
    import torch

    return torch.randint(0, 256, (3, 32, 32), generator=generated(row)).float(), row % 10


def black(row: int) -> tuple[Any, int]:
    import torch

    return torch.zeros(3, 32, 32), row % 10


def train(rows: Any, **loader: Any) -> None:
    """Two epochs, with an evaluation of rows without labels before each."""
    import torch
    from torch.utils.data import DataLoader

    torch.manual_seed(0)
    embed, head = torch.nn.Embedding(CLASSES, 8), torch.nn.LazyLinear(CLASSES)
    batches = DataLoader(rows, **{"batch_size": 8, "shuffle": "sampler" not in loader, **loader})
    evaluated = DataLoader([text(row, labels=fill(-100)) for row in range(32)], batch_size=8)

    def loss(batch: Any) -> Any:
        if isinstance(batch, dict):
            logits, labels = head(embed(batch["input_ids"])), batch["labels"].clamp(max=CLASSES - 1)
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        flat = batch[0].flatten(1).float() / 1000
        return torch.nn.functional.cross_entropy(head(flat), batch[1])

    with torch.no_grad():
        loss(next(iter(batches)))
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(2):
        for batch in evaluated:
            assert len(batch)
        for batch in batches:
            optimizer.zero_grad()
            value = loss(batch)
            value.backward()
            optimizer.step()


def watched(out: Path, rows: Any, **loader: Any) -> dict[str, Any]:
    """The verdicts on the records of a training."""
    with doctor.guard.Guard(out=str(out)):
        train(rows, **loader)
    data = read_data(out)
    assert isinstance(data, Data)
    return {check.code: check.judge(data=data) for check in DATA_CHECKS}


def texts(make: Callable[[int], Any] = text, count: int = ROWS) -> list[Any]:
    return [make(row) for row in range(count)]


def sampler(rows: list[Any]) -> Any:
    from torch.utils.data.distributed import DistributedSampler

    return DistributedSampler(rows, 2, 0)


class Stream:
    """Rows of an IterableDataset."""

    def __new__(cls, rows: list[Any]) -> Any:
        from torch.utils.data import IterableDataset

        class Rows(IterableDataset[Any]):
            def __iter__(self) -> Iterator[Any]:
                return iter(rows)

        return Rows()


FAULTS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "masked": (lambda: texts(lambda row: text(row, labels=fill(-100))), "DAT001", "fail"),
    "half-masked": (
        lambda: texts(lambda row: text(row, labels=fill(-100)) if row % 2 else text(row)),
        "DAT001", "warn",
    ),
    "padding": (lambda: texts(trained_padding), "DAT005", "warn"),
    "one-token": (lambda: texts(one_token), "DAT009", "fail"),
    "equal": (lambda: [text(3)] * ROWS, "DAT009", "fail"),
    "black": (lambda: texts(black), "DAT009", "fail"),
    "inverted": (lambda: texts(inverted), "DAT013", "warn"),
    "255": (lambda: texts(in_255), "DAT010", "note"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_its_code_and_no_other(tmp_path: Path, name: str) -> None:
    make, code, status = FAULTS[name]
    found = watched(tmp_path / "out", make())
    assert found[code].status == status
    others = {each: v.summary for each, v in found.items() if v.status in ("warn", "fail")}
    assert set(others) <= {code}


HEALTHY: dict[str, Callable[[], Any]] = {
    "text": texts,
    "images": lambda: texts(image),
    "anomalies": lambda: texts(lambda row: image(row, 0)),
    "stream": lambda: Stream(texts()),
    "curriculum": lambda: sorted(texts(), key=lambda row: int(row["attention_mask"].sum())),
    "a few without a label": lambda: [*texts(), text(5, labels=fill(-100))],
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_batches_are_silent(tmp_path: Path, name: str) -> None:
    loader = {"shuffle": False} if name in ("stream", "curriculum") else {}
    found = watched(tmp_path / "out", HEALTHY[name](), **loader)
    assert not {code: v.summary for code, v in found.items() if v.status in ("warn", "fail")}
    read = {code for code, verdict in found.items() if verdict.status in ("pass", "note")}
    assert "DAT009" in read


def test_batches_of_one_class_and_a_sampler_that_makes_them(tmp_path: Path) -> None:
    from torch.utils.data import BatchSampler, SequentialSampler

    class Balanced(BatchSampler):
        """One class in a batch, on purpose."""

    rows = [image(row, row // 16) for row in range(ROWS)]
    found = watched(tmp_path / "sorted", rows, batch_size=8, shuffle=False)
    assert found["DAT009"].status == "warn"
    loader = {"batch_size": 1, "shuffle": None}
    own = Balanced(SequentialSampler(rows), 8, drop_last=False)
    found = watched(tmp_path / "own", rows, batch_sampler=own, **loader)
    assert found["DAT009"].status == "note"


@pytest.mark.parametrize("told", [True, False])
def test_a_distributed_sampler_must_be_told_the_epoch(tmp_path: Path, told: bool) -> None:
    rows = texts()
    order = sampler(rows)
    if told:
        epochs = iter(range(10))
        begin = order.__iter__
        order.__class__ = type("Told", (type(order),), {
            "__iter__": lambda self: [self.set_epoch(next(epochs)), begin()][1],
        })  # fmt: skip
    found = watched(tmp_path / "out", rows, sampler=order)
    assert found["DAT019"].status == ("pass" if told else "warn")


@pytest.mark.parametrize("again", [True, False])
def test_a_seed_that_is_set_in_each_epoch_repeats_its_order(tmp_path: Path, again: bool) -> None:
    import torch
    from torch.utils.data import RandomSampler

    rows = texts()
    generator = torch.Generator().manual_seed(0)
    order = RandomSampler(rows, generator=generator)
    if again:
        state = generator.get_state()

        class Seeded:
            def __len__(self) -> int:
                generator.set_state(state)  # asked for at the beginning of each epoch
                return len(rows)

            def __getitem__(self, row: int) -> Any:
                return rows[row]

        order.data_source = Seeded()  # type: ignore[assignment]
    found = watched(tmp_path / "out", rows, sampler=order)
    assert found["DAT019"].status == ("warn" if again else "pass")


def batches_of_8(rows: list[Any]) -> Any:
    return map(list, zip(*[iter(rows)] * 8, strict=True))


ITERATORS: dict[str, Callable[[list[Any]], Any]] = {
    "list": lambda rows: iter(list(batches_of_8(rows))),
    "chain": lambda rows: itertools.chain(batches_of_8(rows)),
    "map": batches_of_8,
}


@pytest.mark.parametrize("name", ITERATORS)
def test_a_distributed_sampler_of_batches_has_any_iterator(tmp_path: Path, name: str) -> None:
    from torch.utils.data.distributed import DistributedSampler

    class Buckets(DistributedSampler[Any]):
        def __iter__(self) -> Iterator[Any]:
            return ITERATORS[name](list(super().__iter__()))

    rows = texts()
    loader = {"batch_sampler": Buckets(rows, 2, 0), "batch_size": 1, "shuffle": None}
    assert watched(tmp_path, rows, **loader)["DAT019"].status is Status.WARN


def test_a_distributed_sampler_within_one_without_a_length(tmp_path: Path) -> None:
    from torch.utils.data import BatchSampler

    class Batched(BatchSampler):
        def __len__(self) -> int:
            raise NotImplementedError

    class Outer:
        def __init__(self, inner: Any) -> None:
            self.sampler = inner

        def __iter__(self) -> Iterator[Any]:
            return iter(self.sampler)

    rows = texts()
    batches = Outer(Batched(sampler(rows), 8, drop_last=False))
    found = watched(tmp_path, rows, batch_sampler=batches, batch_size=1, shuffle=None)
    assert found["DAT019"].status is Status.WARN


def test_indices_that_cannot_be_compared_end_that_look_alone(tmp_path: Path) -> None:
    from torch.utils.data.distributed import DistributedSampler

    class Index(int):
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no")

        __hash__ = int.__hash__

    class Odd(DistributedSampler[Any]):
        def __iter__(self) -> Iterator[Any]:
            return map(Index, super().__iter__())

    rows = texts()
    found = watched(tmp_path, rows, sampler=Odd(rows, 2, 0))
    assert found["DAT009"].status is Status.PASS
    assert found["DAT019"].status is Status.UNKNOWN
    assert "RuntimeError" in found["DAT019"].summary


def test_a_guard_that_failed_before_the_first_step_is_named(tmp_path: Path) -> None:
    with doctor.guard.Guard(out=str(tmp_path)) as guard:
        assert guard._session is not None
        guard._session.hooks.switch.fail(ValueError("odd"))
        train(texts())
    found = read_records(tmp_path)
    assert isinstance(found, Unknown)
    assert "switched itself off before the first step: error: ValueError: odd" in found.reason


@pytest.mark.parametrize(
    ("columns", "status"), [(9_001, Status.PASS), (150_001, Status.PASS), (500_001, Status.SKIP)]
)
def test_rare_values_of_long_rows_are_no_constant_rows(
    tmp_path: Path, columns: int, status: Status
) -> None:
    import torch

    def one_hot(row: int) -> tuple[Any, int]:
        values = torch.zeros(columns)
        values[2 * row + 1] = 1
        return values, row % 10

    class Rows(torch.utils.data.Dataset[Any]):
        def __getitem__(self, row: int) -> Any:
            return one_hot(row)

        def __len__(self) -> int:
            return 80

    with doctor.guard.Guard(out=str(tmp_path)):
        weight = torch.nn.Parameter(torch.ones(()))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for values, _ in torch.utils.data.DataLoader(Rows(), batch_size=2):
            (values.sum() * weight).backward()
            optimizer.step()
            optimizer.zero_grad()
    data = read_data(tmp_path)
    assert isinstance(data, Data)
    assert CHECKS["DAT009"].judge(data=data).status is status


@pytest.mark.parametrize("steps", [0, 1])
def test_ignored_labels_are_judged_when_gradients_were_read(tmp_path: Path, steps: int) -> None:
    import torch

    rows = texts(lambda row: text(row, labels=fill(-100)))
    with doctor.guard.Guard(out=str(tmp_path)):
        embed = torch.nn.Embedding(CLASSES, CLASSES)
        optimizer = torch.optim.SGD(embed.parameters(), lr=1e-3)
        for batch in torch.utils.data.DataLoader(rows, batch_size=8):
            embed(batch["input_ids"]).pow(2).mean().backward()
            assert read_data(tmp_path) is None
        if steps:
            optimizer.step()
    data = read_data(tmp_path)
    if not steps:
        assert isinstance(data, Unknown)
        assert "no gradients" in data.reason
        return
    assert isinstance(data, Data)
    assert CHECKS["DAT001"].judge(data=data).status is Status.NOTE


def test_a_loss_that_reads_no_label_is_no_failure(tmp_path: Path) -> None:
    rows = [{**each, "labels": each["labels"] * 0 - 1} for each in texts()]
    for each in rows:
        each["targets"] = each["input_ids"]
    import torch

    with doctor.guard.Guard(out=str(tmp_path)):
        embed = torch.nn.Embedding(CLASSES, CLASSES)
        optimizer = torch.optim.SGD(embed.parameters(), lr=1e-3)
        for batch in torch.utils.data.DataLoader(rows, batch_size=8):
            optimizer.zero_grad()
            logits = embed(batch["input_ids"]).flatten(0, 1)
            torch.nn.functional.cross_entropy(logits, batch["targets"].flatten()).backward()
            optimizer.step()
    data = read_data(tmp_path)
    assert isinstance(data, Data)
    assert CHECKS["DAT001"].judge(data=data).status is Status.NOTE


def test_one_cause_is_one_failure(tmp_path: Path) -> None:
    watched(tmp_path / "out", texts(lambda row: text(row, labels=fill(-100))))
    report = report_directory(tmp_path / "out", {}, ConfigFlags(), fail_on="fail")
    failed = {finding.check.code for finding in report.findings if finding.is_problem}
    assert failed == {"DAT001"}


def test_rows_of_another_kind_end_the_looking_alone(tmp_path: Path) -> None:
    import torch

    class Odd(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("no")

    weight = torch.nn.Parameter(torch.ones(3))
    loader = torch.utils.data.DataLoader(range(16), collate_fn=lambda rows: Odd())
    with doctor.guard.Guard(out=str(tmp_path)) as guard:
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in loader:
            weight.pow(2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert guard._session.watch.judging.tally.steps == 16 or guard._session.hooks.active
    assert isinstance(read_data(tmp_path), Unknown)
