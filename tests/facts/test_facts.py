"""Facts files: what is written is read back, and what anyone else writes is one clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import machines, mig_slice
from recorded_parts import H100, T4, TORCH_2_15, cuda_view, job, machine

from doctor._util.records import Ended, Unknown
from doctor.catalog import CHECKS
from doctor.facts.facts import Facts, decode, encode
from doctor.facts.interpreter import Cuda, TorchGpu
from doctor.facts.views import JobGpu, JobGpus, visible_gpus
from doctor.job.expect import Expect
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Status
from doctor.judge.engine import examine

OK = Ended(how="ok")
GOOD = encode(machine(H100, torch=TORCH_2_15))
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


@pytest.mark.parametrize("name", machines())
def test_what_is_written_is_read_back(name: str) -> None:
    facts = machines()[name]
    assert decode(encode(facts)) == facts


def test_non_finite_numbers_travel_as_strings() -> None:
    written = json.loads(encode(machines()["smoke_nan"]))
    assert written["smoke"]["steps"][0]["loss"] == "nan"


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"schema_version": 4}', b"null"],
)
def test_what_is_no_facts_file_is_one_line(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a facts file") as error:
        decode(data)
    assert "\n" not in str(error.value)


def test_a_file_of_schema_version_1_is_read() -> None:
    facts = decode((Path(__file__).parent / "version1.json").read_bytes())
    assert facts.schema_version == 3
    assert facts.job == Job(device="cpu", working_dir="/data/runs", keep=3)
    assert facts.options == RunOptions(
        smoke=False, quick=True, budget=8.0, omitted=("load", "peers", "smoke")
    )
    assert facts.expect == Expect(gpu="H100", memory="80GB", disk={"/data": "1TB"})
    assert decode(encode(facts)) == facts


@pytest.mark.parametrize(
    "data",
    [
        b'{"schema_version": 1}',
        b'{"schema_version": 1, "job": 5}',
        b'{"schema_version": 1, "job": {"expect": 5}}',
        b'{"schema_version": 1, "job": ' + b"[" * 100_000,
    ],
)
def test_a_damaged_file_of_schema_version_1_is_one_line(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a facts file") as error:
        decode(data)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "section", "reason"),
    [
        (RunOptions(), "smoke", "omitted by --no-smoke"),
        (RunOptions(budget=8, omitted=("smoke",)), "smoke", "omitted by --budget 8"),
        (RunOptions(budget=8, omitted=("smoke",)), "checkpoint", "no --checkpoint given"),
        (RunOptions(), "surprise", "the job does not need surprise"),
    ],
)
def test_an_absent_section_has_a_reason(options: RunOptions, section: str, reason: str) -> None:
    assert machines()["cpu_only"].with_(options=options).reason_absent(section) == reason


def test_every_section_that_can_be_absent_states_a_reason() -> None:
    facts = machines()["nothing_readable"]
    for name, hint in get_type_hints(Facts).items():
        if type(None) in get_args(hint):
            assert not facts.reason_absent(name).startswith("the job does not need"), name


def test_an_unknown_key_is_an_error() -> None:
    data = json.loads(GOOD)
    data["host"]["surprise"] = 1
    with pytest.raises(ValueError, match="surprise"):
        decode(json.dumps(data).encode())


def paths(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON document."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    found = []
    for key, value in items:
        found.append((*at, key))
        if isinstance(value, dict | list):
            found += paths(value, (*at, key))
    return found


PLACES = paths(json.loads(GOOD))


@settings(max_examples=examples(400), deadline=None)
@given(place=st.sampled_from(PLACES), value=ANY)
def test_any_value_in_any_place_is_facts_or_one_clear_error(
    place: tuple[Any, ...], value: Any
) -> None:
    data = json.loads(GOOD)
    spot = data
    for key in place[:-1]:
        spot = spot[key]
    spot[place[-1]] = value
    try:
        facts = decode(json.dumps(data).encode())
    except ValueError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(facts, Facts)


@settings(max_examples=examples(200), deadline=None)
@given(cut=st.integers(0, len(GOOD)), flip=st.integers(0, 255))
def test_a_damaged_file_is_facts_or_one_clear_error(cut: int, flip: int) -> None:
    for data in (GOOD[:cut], GOOD[:cut] + bytes([flip]) + GOOD[cut + 1 :]):
        try:
            decode(data)
        except ValueError as error:
            assert str(error).startswith("not a facts file")


PAIR = (H100, msgspec.structs.replace(H100, index=1, uuid="GPU-77777777-0000"))


@pytest.mark.parametrize(
    ("wanted", "indices"),
    [
        (None, [0, 1]),
        ("", []),
        ("1", [1]),
        ("1,0", [1, 0]),
        ("-1", []),
        ("0,-1,1", [0]),
        ("7", []),
        ("GPU-7777", [1]),
        ("NoDevFiles", []),
    ],
)
def test_cuda_visible_devices_chooses_among_nvmls_gpus(
    wanted: str | None, indices: list[int]
) -> None:
    found = visible_gpus(PAIR, wanted)
    assert [gpu.nvml.index for gpu in found if gpu.nvml] == indices


def test_gpus_are_matched_by_uuid_whatever_the_order() -> None:
    facts = machine(*PAIR, torch=TORCH_2_15).with_(cuda=cuda_view(PAIR[::-1]))
    assert isinstance(facts.job_gpus, JobGpus)
    assert facts.job_gpus.by == "torch"
    for gpu in facts.job_gpus.gpus:
        assert gpu.nvml
        assert gpu.torch
        assert gpu.nvml.uuid == gpu.torch.uuid


def test_torch_writes_uuids_without_the_prefix() -> None:
    view = cuda_view((H100,))
    bare = msgspec.structs.replace(view.gpus[0], uuid=H100.uuid.removeprefix("GPU-").upper())
    facts = machine(H100, torch=TORCH_2_15).with_(cuda=msgspec.structs.replace(view, gpus=(bare,)))
    assert isinstance(facts.job_gpus, JobGpus)
    assert facts.job_gpus.gpus[0].nvml == H100


def test_a_mig_slice_is_matched_to_its_card_and_has_its_own_memory() -> None:
    gpus = mig_slice().job_gpus
    assert isinstance(gpus, JobGpus)
    (gpu,) = gpus.gpus
    assert gpu.slice
    assert gpu.memory_total == gpu.slice.memory_total


def test_the_precision_is_chosen_for_the_weakest_gpu_of_the_job() -> None:
    facts = machine(H100, T4, torch=TORCH_2_15)
    assert not isinstance(facts.chosen, Unknown)
    assert facts.chosen.precision == "fp16"
    nobody = facts.with_(cuda=Unknown(reason="x"), gpus=Unknown(reason="x"))
    assert isinstance(nobody.chosen, Unknown)


@pytest.mark.parametrize(
    ("device", "host", "kind"),
    [
        ("cpu", {}, "cpu"),
        ("mps", {}, "mps"),
        ("auto", {}, "nvidia"),
        ("cuda", {"nvidia_devices": 0, "device_nodes": ()}, "nvidia"),
        ("auto", {"system": "Darwin", "nvidia_devices": 0, "device_nodes": ()}, "mps"),
        ("auto", {"nvidia_devices": 0, "device_nodes": ("/dev/kfd",), "amd_devices": 2}, "rocm"),
    ],
)
def test_the_kind_of_device_that_a_job_trains_on(
    device: str, host: dict[str, Any], kind: str
) -> None:
    facts = machine(H100, torch=TORCH_2_15, job=job(device=device))
    facts = facts.with_(host=msgspec.structs.replace(facts.host, **host))
    assert facts.target.kind == kind


def test_a_rocm_torch_beside_nvidia_hardware_trains_on_amd_gpus_that_it_sees() -> None:
    rocm = msgspec.structs.replace(TORCH_2_15, cuda=None, hip="6.4")
    amd = TorchGpu(index=0, uuid=None, name="AMD MI60", capability=(9, 0), memory_total=2**35)
    facts = machine(H100, torch=TORCH_2_15).with_(torch=rocm, cuda=Cuda(started=OK, gpus=(amd,)))
    assert facts.target.kind == "rocm"
    assert isinstance(facts.job_gpus, JobGpus)
    assert facts.job_gpus.gpus == (JobGpu(torch=amd),)
    statuses = {each.check.code: each.status for each in examine(CHECKS, facts)}
    assert statuses["TOR002"] is Status.PASS
    assert statuses["GPU001"] is Status.PASS
    assert facts.with_(cuda=Cuda(started=OK)).target.kind == "nvidia"
    assert facts.with_(job=job(device="cuda")).target.kind == "nvidia"


def test_an_index_in_cuda_visible_devices_names_the_first_slice_of_a_mig_gpu() -> None:
    card = mig_slice().gpus
    assert isinstance(card, tuple)
    (found,) = visible_gpus(card, "0")
    assert found.slice == card[0].slices[0]


def test_a_single_gpu_needs_no_uuid_to_be_matched() -> None:
    view = cuda_view((H100,))
    bare = msgspec.structs.replace(view.gpus[0], uuid=None)
    facts = machine(H100, torch=TORCH_2_15).with_(cuda=msgspec.structs.replace(view, gpus=(bare,)))
    assert isinstance(facts.job_gpus, JobGpus)
    assert facts.job_gpus.gpus[0].nvml == H100


@pytest.mark.parametrize("field", ["keep", "shards", "gpus", "params"])
def test_counts_of_a_job_are_at_least_one(field: str) -> None:
    data = json.loads(GOOD)
    data["job"][field] = -5
    with pytest.raises(ValueError, match=field):
        decode(json.dumps(data).encode())


def test_wsls_node_alone_does_not_tell_the_maker_and_a_rocm_torch_does() -> None:
    facts = machine(H100, torch=TORCH_2_15)
    node = msgspec.structs.replace(facts.host, nvidia_devices=0, device_nodes=("/dev/dxg",))
    rocm = msgspec.structs.replace(TORCH_2_15, cuda=None, hip="6.4")
    assert facts.with_(host=node).target.kind == "nvidia"
    assert facts.with_(host=node, torch=rocm).target.kind == "rocm"


def test_fields_of_earlier_releases_are_left_out() -> None:
    facts = msgspec.json.decode(GOOD)
    facts["torch"]["tf32_api"] = "allow_tf32"
    facts["gpus"][0]["fabric_error"] = 0
    assert decode(msgspec.json.encode(facts)) == decode(GOOD)
    facts["torch"]["tf32_apis"] = "allow_tf32"
    with pytest.raises(ValueError, match="tf32_apis"):
        decode(msgspec.json.encode(facts))


def test_a_script_is_judged_with_the_only_installed_version_of_a_library() -> None:
    facts = machine(H100, torch=TORCH_2_15)
    for installed, version in (
        (("transformers==5.23.0", "torch==2.15.0"), "5.23.0"),
        (("transformers==5.23.0", "transformers==4.57.1"), None),
        (("sentence-transformers==5.1.0",), None),
        (None, None),
    ):
        interpreter = msgspec.structs.replace(facts.interpreter, installed=installed)
        assert facts.with_(interpreter=interpreter).script_machine.transformers == version
