"""Short logs in which no line of a class is found: the rows that `doctor explain` asks, and
messages that were broken over lines."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from logs import read

from doctor.cli.explain.name import explain
from doctor.cli.options import ConfigFlags
from doctor.cli.triage import triage
from doctor.errors.match import with_message
from doctor.judge.check import Finding, Status
from doctor.log.wrapped import flowing, unwrapped
from doctor.report.formats import plain

IOMMU = 'init.cpp:122 NCCL WARN Missing "iommu=pt" from kernel command line which can lead to hang!'
BROKEN = (
    "RuntimeError: one of the variables needed for gradient computation has been modified\n"
    "by an inplace operation: [torch.cuda.FloatTensor [768]] is at version 3; expected version 2\n"
    "instead."
)
SYMBOL = (
    "`flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined\n"
    " symbol: _ZN3c104impl3cow11cow_deleterEPv`"
)
COLUMNS = (
    "ImportError: /usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /opt/li"
    "\nb/cpu_adam.so)"
)


def judged(tmp_path: Path, text: str) -> tuple[Finding, str]:
    """The finding that leads, and the report."""
    log = tmp_path / "train.log"
    log.write_text(f"{text}\n", encoding="utf-8")
    report = triage([str(log)], {}, ConfigFlags(no_config=True))
    return report.findings[0], plain.render(report)


THROWN = (
    "'({}(\"HTTPSConnectionPool(host='huggingface.co', port=443): {}\"), '(Request ID: 1e0)')' "
    "thrown while requesting HEAD https://huggingface.co/a/b/resolve/main/config.json"
)
EXCEEDED = "Max retries exceeded with url: /a/b/resolve/main/config.json (Caused by {})"


@pytest.mark.parametrize(
    "text",
    [
        THROWN.format("ReadTimeoutError", "Read timed out. (read timeout=10)"),
        THROWN.format("MaxRetryError", EXCEEDED.format("NameResolutionError")),
        "W _http.py:320: " + THROWN.format("MaxRetryError", EXCEEDED.format("ConnectTimeoutError")),
        "Error while downloading from https://cas-bridge.xethub.hf.co/x: HTTPSConnectionPool(host="
        "'cas-bridge.xethub.hf.co', port=443): Read timed out.\nTrying to resume download...",
        "WARNING:huggingface_hub.utils._http:Retrying in 2s [Retry 2/5].",
        "Token indices sequence length is longer than the specified maximum sequence length for "
        "this model (20411 > 16384). Running this sequence through the model will result in "
        "indexing errors",
    ],
)
def test_what_is_tried_again_or_only_informs_accuses_nothing(text: str, tmp_path: Path) -> None:
    finding, _ = judged(tmp_path, f"{text}\neval: acc_norm 0.8089\ndone.")
    assert finding.status is Status.UNKNOWN
    assert not finding.verdict.causes


def test_a_preemption_after_which_the_training_went_on_is_a_note(tmp_path: Path) -> None:
    steps = "\n".join(f"step {n} loss {2 - n / 100:.2f}" for n in range(5))
    ended = (
        "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2025-09-30T04:12:44 DUE TO PREEMPTION"
    )
    finding, text = judged(tmp_path, f"{steps}\n{ended} ***\n{steps}")
    assert finding.status in (Status.NOTE, Status.UNKNOWN)
    assert "WARN" not in text


@pytest.mark.parametrize(
    "text",
    [
        "include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
        "misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9637892 bytes, "
        "error: No space left on device (28)",
        "[3] include/shm.h:48 NCCL WARN Error while creating shared memory segment nccl-shm-recv-1",
        "OSError: [Errno 28] No space left on device: '/dev/shm/torch_1'",
    ],
)
def test_a_full_dev_shm_is_no_full_disk(text: str, tmp_path: Path) -> None:
    finding, _ = judged(tmp_path, text)
    assert finding.check.slug == "shm-bus-error"


def test_the_last_try_and_its_exception_are_the_failure(tmp_path: Path) -> None:
    tried = THROWN.format("MaxRetryError", EXCEEDED.format("ConnectTimeoutError"))
    for end in (
        "Retrying in 8s [Retry 5/5].",
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files",
    ):
        finding, _ = judged(tmp_path, f"{tried}\nRetrying in 4s [Retry 4/5].\n{tried}\n{end}")
        assert finding.check.slug == "hf-offline"


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (IOMMU, "iommu-blocks-gpu"),
        (
            'File "deepspeed/runtime/zero/stage3.py", line 525, in defragment\n'
            "    assert len(set(t.dtype for t in tensors)) == 1",
            "wrapper-refuses-model",
        ),
    ],
)
def test_a_line_of_no_class_is_named_as_explain_names_it(
    text: str, row: str, tmp_path: Path
) -> None:
    finding, _ = judged(tmp_path, text)
    assert finding.status is Status.UNKNOWN
    assert finding.verdict.causes == (row,)
    assert f"message of {row}: " in finding.verdict.summary
    assert row in explain(text)


def test_in_the_log_of_a_training_a_line_of_no_class_says_nothing(tmp_path: Path) -> None:
    steps = "\n".join(f"step {n} loss {3 - n / 9:.3f}" for n in range(12))
    finding, _ = judged(tmp_path, f"{IOMMU}\n{steps}")
    assert finding.verdict.causes == ()


@pytest.mark.parametrize(
    ("text", "slug"),
    [(BROKEN, "autograd-misuse"), (SYMBOL, "extension-abi-mismatch")],
)
def test_a_message_that_is_broken_over_lines_is_found(text: str, slug: str, tmp_path: Path) -> None:
    finding, _ = judged(tmp_path, text)
    assert (finding.status, finding.check.slug) == (Status.FAIL, slug)
    rows = [row.id for row in with_message(" ".join(text.split()))]
    assert slug in rows
    assert rows[0] in explain(text)  # of two with the same fix the first


def test_lines_are_joined_only_where_they_look_broken_and_keep_their_numbers() -> None:
    assert unwrapped(COLUMNS, "").startswith(COLUMNS.replace("\n", ""))
    assert unwrapped(BROKEN + "\nlast", " ").splitlines()[1:] == ["", "", "last"]
    wide = "x" * 90
    for apart in ("short\nnext", f"{wide}\n    code", f"{wide}\n[rank1]: next", f"{wide}\n\nnext"):
        assert unwrapped(apart, " ") == apart + "\n"


@pytest.mark.parametrize("indentation", ["", "  ", "\t"])
@pytest.mark.parametrize("width", [60, 76, 100])
def test_a_message_broken_at_spaces_is_explained_as_on_one_line(
    width: int, indentation: str
) -> None:
    for message, cause in (
        ("size mismatch for base.layers.0.attention.lora_A.default.weight: copying a param with "
         "shape torch.Size([16, 2048]) from checkpoint, the shape in current model is "
         "torch.Size([64, 2048]).", "checkpoint-of-other-sizes"),
        ("RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.",
         "parameter-changed-in-place"),
    ):  # fmt: skip
        lines = textwrap.wrap(message, width, break_long_words=False, break_on_hyphens=False)
        broken = f"\n{indentation}".join(lines)
        heads = [line for line in explain(broken).splitlines() if line == cause]
        assert heads == [cause], broken


@pytest.mark.parametrize(
    "text",
    [
        "step 100 of 4000, the loss of this batch is 2.31, 1.2 s\nstep 200 of 4000, the loss is 2",
        "loading the weights of the model from the directory\nloss: 2.31",
        "size mismatch for a.weight: the shape in current model is [2]\nsize mismatch for b.weight",
        "    return self._call_impl(*arguments, **keyword_arguments)\nexpected scalar type Half",
        "The weights are read from the directory of this run.\nnothing else is loaded from it",
        "The weights are read from the directory of this run\nStarting 8 processes",
        "[rank0]: The weights are read from the directory\n[rank1]: the weights are read as well",
        "RuntimeError: the loader worker of this process raised\nmodels.errors.ShapeError: x",
        "train epoch 4 finished in 32.1 seconds, loss=nan, lr=0.0001\nvalid epoch 4, loss=0.55",
        "[W] The progress display is off since the terminal is narrow\nepoch 12 loss nan lr 0.0002",
        "the model has acc 0.1201 and recall 0.31 on the first of the\ngpus and on others as well",
        "The progress display is off since the terminal is narrow\nepoch 12 recon 0.31 and goes on",
    ],
)
def test_lines_that_stand_for_themselves_are_not_joined(text: str) -> None:
    assert flowing(text) == text


def test_an_exception_of_no_known_cause_is_told_by_another_line(tmp_path: Path) -> None:
    told = "MIOpen Error: sqlite_db.cpp:227: Internal error while accessing SQLite database: disk"
    finding, _ = judged(tmp_path, f"{told}\n\nRuntimeError: miopenStatusInternalError")
    assert finding.status is Status.FAIL
    assert finding.verdict.causes == ("file-locks-missing",)
    assert finding.places[0].line == 1


def test_an_exception_below_a_wrapper_leads_and_gives_its_reason(tmp_path: Path) -> None:
    wrapper = "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:"
    below = "ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler' (c.py)"
    finding, text = judged(tmp_path, f"{wrapper}\n{below}")
    assert finding.verdict.causes[0] == "packages-of-several-times"
    assert "why: triton is of another version" in text
    alone, text = judged(tmp_path, wrapper)
    assert alone.verdict.causes[0] == "compile-failed"
    assert "no compiler" not in text


def test_an_exception_of_a_rank_below_the_summary_of_all_leads(tmp_path: Path) -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 88, in <module>\n    dcp.load(state, checkpoint_id=path)\n'
        "CheckpointException: CheckpointException ranks:dict_keys([0, 1])\n"
        "Traceback (most recent call last): (RANK 0)\n"
        '  File "torch/distributed/checkpoint/utils.py", line 164, in reduce_scatter\n'
        "    local_data = map_fun()\n"
        "FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/step_200/__1_0.distcp'\n"
    )
    finding, told = judged(tmp_path, text)
    assert finding.check.slug == "file-missing"
    assert "all nodes share" in told


@pytest.mark.parametrize(
    ("line", "is_known"), [("  (linear): Linear(in=8, out=8)", True), ("(linear): a log", False)]
)
def test_a_message_goes_on_in_indented_lines(tmp_path: Path, line: str, is_known: bool) -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 12, in <module>\n    get_peft_model(model, config)\n'
        f"ValueError: Target module Clippable(\n{line}\n"
        ") is not supported. Currently, only the following modules are supported: Linear\n"
    )
    finding, _ = judged(tmp_path, text)
    assert ("adapter-modules" in finding.verdict.causes) is is_known


def test_dynamo_that_refuses_code_asks_for_no_compiler(tmp_path: Path) -> None:
    finding, text = judged(tmp_path, "torch._dynamo.exc.Unsupported: Unsupported method call")
    assert finding.verdict.causes[0] == "compiled-model-refused"
    assert "gcc" not in text


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (
            "size mismatch for embed.weight: copying a param with shape torch.Size([0]) from "
            "checkpoint, the shape in current model is torch.Size([32002, 4096]).",
            "parameters-are-partitioned",
        ),
        (
            "CheckpointError: torch.utils.checkpoint: Recomputed values for the following tensors "
            "have different metadata than during the forward pass.\n"
            "saved metadata: {'shape': torch.Size([2048])}\n"
            "recomputed metadata: {'shape': torch.Size([0])}",
            "parameters-are-partitioned",
        ),
        (
            "ibvwrap.cc:278 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate "
            "memory",
            "locked-memory-limit",
        ),
    ],
)
def test_the_special_cause_leads_before_the_general_one(
    text: str, row: str, tmp_path: Path
) -> None:
    finding, _ = judged(tmp_path, text)
    assert finding.verdict.causes[0] == row
    heads = [word for word in explain(text).split() if "-" in word and word.islower()]
    assert row in heads


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("127.0.1.1       node-a node-b   # image default", True),
        ("$ getent hosts node-a\n127.0.1.1 node-a", True),
        ("127.0.1.1       node-b", False),  # the usual line of the host's own name
        ("127.0.0.1       localhost\n10.20.0.11  node-a", False),
    ],
)
def test_a_name_that_is_the_loopbacks_is_the_reason_only_where_ranks_wait_for_it(
    tmp_path: Path, line: str, told: bool
) -> None:
    waits = "The client socket has timed out after 600s while trying to connect to (node-a, 29500)."
    first, _ = judged(tmp_path, f"[E1 socket.cpp:1] [c10d] {waits}\n{line}")
    assert first.check.slug == "rendezvous-timeout"
    assert ("master-address-is-loopback" in first.verdict.summary) is told
    assert ("/etc/hosts" in first.fix) is told


def test_a_banner_with_a_size_of_memory_is_no_training(tmp_path: Path) -> None:
    first, _ = judged(
        tmp_path,
        "   \\\\   /|    NVIDIA L40S. Num GPUs = 1. Max memory: 44.403 GB. Platform: Linux.\n"
        "Map: 100%|##########| 18422/18422 [00:01<00:00, 9901.33 examples/s]\n"
        "Traceback (most recent call last):\n"
        '  File "/home/u/finetune.py", line 118, in <module>\n'
        "    trainer = train_on_responses_only(\n"
        '  File "/opt/unsloth_zoo/training_utils.py", line 72, in fix_zero_training_loss\n'
        "    raise ZeroDivisionError(\n"
        "ZeroDivisionError: Unsloth: All labels in your dataset are -100. Training losses will be "
        "all 0.\n",
    )
    assert first.verdict.status is Status.FAIL
    assert "answer-template-not-found" in first.verdict.summary


def test_a_mean_of_losses_that_is_never_finite_is_a_failure(tmp_path: Path) -> None:
    bars = [f"steps: 0%| | {n}/1888 [00:06<3:12:09, 6.11s/it, avr_loss=nan]" for n in range(1, 9)]
    first, _ = judged(tmp_path, "\n".join(bars))
    assert first.check.code == "LOG091"
    assert first.verdict.status is Status.FAIL


ASSERTS = (
    "Loss.cu:242: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [4,0,0] "
    "Assertion `t >= 0 && t < n_classes` failed.\n"
)
FRAMES = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 391, in loss\n'
    "    loss_cls = self.loss_cls(x)\n"
    '  File "losses/cross_entropy_loss.py", line 46, in cross_entropy\n'
    "    loss = F.cross_entropy(\n"
    '  File "nn/functional.py", line 3086, in cross_entropy\n'
    "    return torch._C._nn.cross_entropy_loss(input, target)\n"
)


def test_the_code_of_a_traceback_is_no_training_that_went_on() -> None:
    ends = "RuntimeError: CUDA error: device-side assert triggered\n"
    (event,) = read(log=ASSERTS + FRAMES + ends).events
    assert (event.line, event.recovered) == (1, False)
    trained = "".join(f"step {at} loss {3 - at / 9:.3f}\n" for at in range(4))
    first, second = read(log=ASSERTS + trained + FRAMES + ends).events
    assert (first.recovered, second.recovered) == (True, False)


def test_metrics_of_another_process_within_a_traceback_are_read() -> None:
    rows = "".join(f"step {at} loss: {3 - at / 9:.3f}\n" for at in range(4))
    log = read(log=FRAMES + rows + "RuntimeError: it failed\n")
    assert [each.name for each in log.curves] == ["loss"]


SMI = """\
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.129.03             Driver Version: 535.129.03   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|   0  NVIDIA H100 80GB HBM3          On  | 00000000:04:00.0 Off |                    0 |
| N/A   38C    P0             125W / 700W |  70084MiB / 81559MiB |      0%      Default |
|                                         |                      |             Disabled |
+-----------------------------------------+----------------------+----------------------+

+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|        ID   ID                                                             Usage      |
|=======================================================================================|
+---------------------------------------------------------------------------------------+
"""
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 79.11 GiB of which 1.21 GiB is free.\n"
)


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ("".join(f"step {at} loss {3 - at / 90:.3f}\n" for at in range(60)), False),
        ("", False),  # as of a notebook, whose container lists no process
        (OOM, True),
    ],
)
def test_memory_in_use_may_be_that_of_the_run_whose_log_shows_it(
    tmp_path: Path, after: str, told: bool
) -> None:
    (tmp_path / "train.log").write_text(SMI + after)
    report = triage([str(tmp_path / "train.log")], {}, ConfigFlags())
    assert ("GPU002" in {each.check.code for each in report.findings}) is told


RERUN = "WARNING:megatron.core.rerun_state_machine:"
UNEXPECTED = (
    f"{RERUN}Unexpected result tensor(nan, device='cuda:3') on rank 43 at iteration #81352 "
    "invocation #3 (message='found NaN in local forward loss calculation')\n"
)
OF_RERUN = (
    "ERROR:megatron.core.rerun_state_machine:Rank 43, node n071, device 3, iteration #81352: "
)


@pytest.mark.parametrize(
    ("end", "slug", "says"),
    [
        (f"{OF_RERUN}Possible persistent error!\n", "xid-hardware", "node of the first run"),
        (f"{OF_RERUN}Possible transient error!\n", "xid-hardware", "n071"),
        (f"{OF_RERUN}Correct result (but possible Application error)\n", "stopped-at-nan", ""),
        (f"{OF_RERUN}First rerun: unexpected result is reproducible\n", "stopped-at-nan", ""),
    ],
)
def test_what_megatron_found_by_running_a_step_again(
    end: str, slug: str, says: str, tmp_path: Path
) -> None:
    finding, _ = judged(tmp_path, UNEXPECTED + "waiting for the scheduler\n" * 60 + end)
    assert finding.check.slug == slug
    assert says in finding.fix


TOO_MANY = (
    "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: "
    "https://huggingface.co/api/datasets/a\n"
)


@pytest.mark.parametrize(
    ("end", "says", "not_said"),
    [
        (TOO_MANY, "Log in (HF_TOKEN", "hf download REPOSITORY"),
        ("", "hf download REPOSITORY", "Log in"),
        (TOO_MANY.replace("huggingface.co", "api.example.com"), "hf download", "Log in"),
    ],
)
def test_a_limit_of_requests_is_no_missing_network(
    end: str, says: str, not_said: str, tmp_path: Path
) -> None:
    tries = "".join(f"[rank{at}]: Retrying in {at}s [Retry {at}/5].\n" for at in range(1, 6))
    finding, _ = judged(tmp_path, tries + "waiting\n" * 40 + end)
    assert finding.check.slug == "hf-offline"
    assert says in finding.fix
    assert not_said not in finding.fix


@pytest.mark.parametrize(
    "said",
    [
        "checkpointing every 100 steps because the VM was preempted last week",
        "spot handler: will save when the instance is being preempted (polling)",
    ],
)
def test_what_a_program_says_of_preemption_is_none(said: str, tmp_path: Path) -> None:
    failure = "Traceback (most recent call last):\nKeyError: 'labels'\n"
    assert judged(tmp_path, f"{said}\n{failure}")[0].check.slug != "scheduler-ended"


ENQUEUED = (
    "[rank{0}]: [PG ID 0 PG GUID 0 Rank {0}] Received a dump signal due to a collective timeout "
    "from this local rank: last enqueued work: 1290, last completed work: 1286\n"
)


def test_work_that_is_only_enqueued_accuses_no_rank(tmp_path: Path) -> None:
    timeout = (
        "[rank0]:[E1012 02:22:10.800 ProcessGroupNCCL.cpp:688] [Rank 0] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=1287, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600071 milliseconds before timing out.\n"
    )
    text = "".join(ENQUEUED.format(rank) for rank in (1, 2, 3)) + timeout
    assert "behind" not in judged(tmp_path, text)[0].verdict.summary


NOT_FORMATTED = (
    "--- Logging error ---\n"
    "Traceback (most recent call last):\n"
    '  File "/usr/lib/python3.11/logging/__init__.py", line 377, in getMessage\n'
    "    msg = msg % self.args\n"
    "TypeError: not all arguments converted during string formatting\n"
    "Call stack:\n"
    '  File "test.py", line 110, in <module>\n'
)


def test_a_message_that_logging_could_not_format_is_no_failure(tmp_path: Path) -> None:
    first, _ = judged(tmp_path, f"{NOT_FORMATTED}1250it [16:09,  1.42it/s]")
    assert first.status is Status.UNKNOWN
    first, _ = judged(tmp_path, NOT_FORMATTED.partition("\n")[2])
    assert first.status is Status.FAIL


LATE = "wandb: ERROR Error while calling W&B API: context deadline exceeded"


@pytest.mark.parametrize(
    ("line", "fails"),
    [
        (
            f"{LATE} (<Response [500]>)",
            False,
        ),
        ("wandb: ERROR Error while calling W&B API: permission denied (<Response [403]>)", True),
        ("wandb.errors.CommError: context deadline exceeded (<Response [500]>)", True),
    ],
)
def test_a_server_that_answers_late_is_no_failure_unless_it_is_raised(
    tmp_path: Path, line: str, fails: bool
) -> None:
    first, _ = judged(tmp_path, line)
    assert (first.status is Status.FAIL) == fails


def test_a_line_that_is_harmless_names_no_exception_of_unknown_cause(tmp_path: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "a.py", line 9\nImportError: No lion'
    notice = "Error caught was: No module named 'triton'"
    finding, _ = judged(tmp_path, f"{notice}\n{raised}")
    assert "triton" not in finding.verdict.summary
    finding, _ = judged(tmp_path, f"fatal: No module named 'triton'\n{raised}")
    assert "triton" in finding.verdict.summary
