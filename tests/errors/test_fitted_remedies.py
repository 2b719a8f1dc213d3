"""The sentence that a message's own numbers and names put before a remedy."""

from __future__ import annotations

import pytest

from doctor.cli.explain.text import Explained, explain_text
from doctor.errors.fitted import fitted
from doctor.errors.match import with_message

ARGUMENT = "TypeError: {}() got an unexpected keyword argument '{}'"
WAITED = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType=BROADCAST)"
PRODUCT = "RuntimeError: mat1 and mat2 shapes cannot be multiplied ({})"


@pytest.mark.parametrize(
    ("text", "said", "unsaid"),
    [
        (ARGUMENT.format("Net.__init__", "verbose"), "", "get_last_lr"),
        (ARGUMENT.format("ReduceLROnPlateau.__init__", "verbose"), "get_last_lr", ""),
        (ARGUMENT.format("MyModel.__init__", "device"), "", "GradScaler"),
        (ARGUMENT.format("Loss.__init__", "beta"), "", "DPOConfig"),
        (ARGUMENT.format("main", "resume_from_checkpoint"), "", "trainer.fit"),
        (ARGUMENT.format("MyTrainer.load", "weights_only"), "", "a newer Lightning"),
        (ARGUMENT.format("Trainer.fit", "weights_only"), "a newer Lightning", ""),
        (
            "RuntimeError: Failed to import a.b because of the following error (look up to see its "
            "traceback):\nNo module named 'sklearn'",
            "install scikit-learn",
            "install sklearn",
        ),
        (
            "AttributeError: 'Tokenizer' object has no attribute 'encode_plus'",
            "",
            "release 5",
        ),
        (
            "AttributeError: 'LlamaTokenizer' object has no attribute 'encode_plus'",
            "one of transformers: release 5",
            "",
        ),
        (
            "MisconfigurationException: `ModelCheckpoint(monitor='val_acc')` could not find the "
            "monitored key in the returned metrics: ['train_acc', 'lr', 'val_f1']",
            "one that is (val_f1",
            "train_acc",
        ),
        (
            'RuntimeError: Missing key(s) in state_dict: "a.weight". Unexpected key(s) in '
            'state_dict: "b.lora_A.weight". ',
            "",
            "has adapters",
        ),
        (PRODUCT.format("64x256 and 512x10"), "nn.Linear(256, 10)", "x.flatten(1) before it"),
        (PRODUCT.format("64x128 and 64x10"), "nn.Linear(128, 10)", "is transposed"),
        (PRODUCT.format("1792x28 and 784x128"), "x.flatten(1) before it", ""),
        (
            "RuntimeError: Given groups=1, weight of size [64, 64, 3, 3], expected input[16, 128, "
            "64, 64] to have 64 channels, but got 128 channels instead",
            "in_channels=128",
            "another dimension",
        ),
        ("IndexError: Target 255 is out of bounds.", "", "256 classes"),
        (ARGUMENT.format("forward", "num_items_in_batch"), "accepts_loss_kwargs", "Instead of"),
        (
            "ImportError: cannot import name 'amp' from 'apex' (/opt/site-packages/apex/a.py)",
            "upgrade transformers",
            "install -U apex",
        ),
        (
            "AttributeError: 'DeepSpeedZeroOptimizer_Stage3' object has no attribute 'train'",
            "install -U accelerate",
            "",
        ),
        (
            "AttributeError: 'DeepSpeedEngine' object has no attribute 'train_all'",
            "",
            "install -U accelerate",
        ),
        (
            "MisconfigurationException: `ModelCheckpoint(monitor='val/nll_dec')` could not find "
            "the monitored key in the returned metrics: ['lr', 'val/z std', 'val/nll_decoder']",
            "one that is (val/nll_decoder)",
            "",
        ),
        (
            "MisconfigurationException: `ModelCheckpoint(monitor='acc')` could not find the "
            "monitored key in the returned metrics: ['lr-AdamW/pg1', 'loss', 'val_mAP']",
            "one that is (val_mAP, lr-AdamW/pg1, loss)",
            "",
        ),
        (
            "Detected mismatch between collectives on ranks. Rank 0 is running collective: "
            "CollectiveFingerPrint(SequenceNumber=7, OpType=ALLGATHER, TensorShape=[1]), but Rank "
            "5 is running collective: CollectiveFingerPrint(SequenceNumber=9, OpType=REDUCE)",
            "rank 5 in collective 9, REDUCE",
            "",
        ),
        ("RuntimeError: Parent directory out/a does not exist.", "Create out/a before", ""),
        (
            "ModuleNotFoundError: No module named 'transformer_engine'",
            '"transformer_engine[pytorch]"',
            "",
        ),
        (
            "DataLoader worker (pid 7) is killed by signal: Segmentation fault.",
            "spawn",
            "out-of-memory",
        ),
        ("Segmentation fault (core dumped)", "", "spawn"),
        ("DataLoader worker (pid 7) is killed by signal: Killed.", "", "spawn"),
        (
            "AssertionError: MMCV==2.2.0 is used but incompatible. Please install mmcv>=2.0.0rc4, "
            "<2.2.0.",
            'install "mmcv>=2.0.0rc4, <2.2.0"',
            "",
        ),
        (
            "AssertionError: MMCV==1.6.0 is used but incompatible. Please install mmcv>=(1, 3, 13, "
            "0, 0, 0), <=(1, 5, 0, 0, 0, 0).",
            'install "mmcv-full>=1.3.13,<=1.5.0"',
            "",
        ),
        (
            "NotImplementedError: Support for `training_epoch_end` has been removed in v2.0.0.",
            "pytorch-lightning<2",
            "save_hyperparameters",
        ),
        ("ValueError: Label values must be <= vocab_size: 29", "has 29 classes", ""),
        (WAITED.format(1), "NCCL_P2P_DISABLE=1", ""),
        (WAITED.format(12), "", "NCCL_P2P_DISABLE=1"),
        (
            "RuntimeError: index 50 is out of bounds for dimension 0 with size 50",
            "begin with 1",
            "labels.masked_fill",
        ),
        ("RuntimeError: index 51 is out of bounds for dimension 0 with size 50", "", "size itself"),
        (
            "RuntimeError: Given groups=1, weight of size [320, 9, 3, 3], expected input[1, 4, 32, "
            "32] to have 9 channels, but got 4 channels instead",
            "a UNet for inpainting",
            "in_channels=4",
        ),
        (
            "ImportError: libcublas.so.11: cannot open shared object file: No such file or "
            "directory",
            "nvidia-cublas-cu11",
            "cu12.",
        ),
        (
            "ImportError: libcusparse.so.11: cannot open shared object file: No such file or "
            "directory",
            "nvidia-cusparse-cu11",
            "cusparse-cu12",
        ),
        (
            "ImportError: libcufft.so.11: cannot open shared object file: No such file or "
            "directory",
            "nvidia-cufft-cu12",
            "cufft-cu11",
        ),
        (
            "HTTPError: 401 Client Error: Unauthorized for url: "
            "https://huggingface.co/datasets/acme/words/resolve/main/README.md",
            "huggingface.co/datasets/acme/words",
            "",
        ),
        (
            "GatedRepoError: 403 Client Error. Cannot access gated repo for url "
            "https://huggingface.co/api/datasets/acme/words/resolve/main/x.json",
            "huggingface.co/datasets/acme/words",
            "huggingface.co/api",
        ),
        (
            "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected "
            "88 from C header, got 96 from PyObject",
            "built for numpy 2 and numpy 1 is installed",
            '"numpy<2"',
        ),
        (
            "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected "
            "96 from C header, got 88 from PyObject",
            '"numpy<2"',
            "built for numpy 2",
        ),
        (
            "RuntimeWarning: numpy.ndarray size changed, may indicate binary incompatibility. "
            "Expected 80 from C header, got 88 from PyObject",
            "--force-reinstall",
            "built for",
        ),
        (
            "ValueError: You can't train a model that has been loaded in 8-bit or 4-bit precision "
            "on a different device than the one you're training on.",
            "LOCAL_RANK",
            "",
        ),
        (
            "ValueError: You can't train a model that has been loaded in 8-bit precision on "
            "multiple devices.",
            "device_map=",
            "LOCAL_RANK",
        ),
        (
            "ImportError: TorchCodec is required for save_with_torchcodec. Please install "
            "torchcodec to use this function.",
            "torchcodec of this torch",
            "",
        ),
        ("ModuleNotFoundError: No module named 'torchcodec'", "torchcodec of this torch", ""),
        (
            "NCCL WARN Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 bytes, error: No "
            "space left on device (28)",
            "--shm-size",
            "save_total_limit",
        ),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/torch_1'", "--shm-size", "save_"),
        ("OSError: [Errno 28] No space left on device: '/data/out'", "save_total_limit", "shm"),
        (
            "RuntimeError: The NVIDIA Tesla K80 GPU with CUDA capability sm_37 is not compatible "
            "with the current PyTorch installation.",
            "torch up to 2.6 from the index cu118",
            "1.12",
        ),
        ("KeyError: 'llama_index'", "", "newer than the installed transformers"),
        ("KeyError: 'qwen3_moe'", "newer than the installed transformers", ""),
    ],
)
def test_only_what_the_message_shows_is_said(text: str, said: str, unsaid: str) -> None:
    first = with_message(text)[0]
    fix = fitted(first, text).fix
    assert said in fix
    assert not unsaid or unsaid not in fix


FRAMES = '  File "train.py", line 9, in {}\n    {}\n'
INPLACE = (
    "RuntimeError: one of the variables needed for gradient computation has been modified by an "
    "inplace operation: [torch.cuda.FloatTensor {}]{} is at version 3; expected version 2 instead."
)


def said_of(text: str) -> Explained:
    explained = explain_text(text)
    assert explained
    return explained


@pytest.mark.parametrize(
    ("text", "id"),
    [
        (FRAMES.format("main", "obs, reward, done, info = env.step(a)")
         + "ValueError: too many values to unpack (expected 4)", "simulator-not-usable"),
        (FRAMES.format("main", "a, b, c, d = row")
         + "ValueError: too many values to unpack (expected 4)", "unpacked-rows"),
        (FRAMES.format("main", "state, _ = env.reset()")
         + "ValueError: too many values to unpack (expected 2)", "simulator-not-usable"),
        (FRAMES.format("main", "x, y = batch")
         + "ValueError: too many values to unpack (expected 2)", "unpacked-rows"),
        (INPLACE.format("[64, 128]", ""), "parameter-changed-before-backward"),
        (INPLACE.format("[64, 128]", ", which is output 0 of ReluBackward0,"),
         "value-changed-in-place"),
    ],
)  # fmt: skip
def test_what_the_text_states_decides_which_cause_is_first(text: str, id: str) -> None:
    assert said_of(text).causes[0].id == id


def test_a_stack_without_its_first_line_names_the_stage_that_ran_out_of_memory() -> None:
    message = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total "
        "capacity of 39.39 GiB of which 2.00 GiB is free. Of the allocated memory 30.00 GiB is "
        "allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated."
    )
    assert "use_liger_kernel" not in said_of(message).answer()
    stack = FRAMES.format("ForCausalLMLoss", "logits = logits.float()") + message
    assert "use_liger_kernel" in said_of(stack).answer()


def test_the_whole_message_is_not_contradicted_by_its_first_line() -> None:
    text = (
        "RuntimeError: Could not load libtorchcodec. Likely causes:\n"
        'FFmpeg version 6: Traceback (most recent call last):\n  File "a.py", line 1, in load\n'
        "    ctypes.CDLL(path)\n"
        "OSError: libnvrtc.so.13: cannot open shared object file: No such file or directory\n"
    )
    answer = said_of(text).answer()
    assert "built for another CUDA" in answer
    assert "Install FFmpeg" not in answer


def test_a_stack_of_no_known_cause_names_the_programs_last_frame() -> None:
    stack = FRAMES.format("main", "inflate(model)") + (
        '  File "/opt/lib/python3.10/site-packages/zork/core.py", line 14, in inflate\n'
        "    raise ZorkError(text)\nzork.core.ZorkError: the blimp is not inflated"
    )
    assert "the last frame of the program: train.py:9: inflate(model)" in said_of(stack).answer()
    known = FRAMES.format("main", "x, y = batch") + "ValueError: too many values to unpack"
    assert "the last frame" not in said_of(known).answer()


def test_an_assertion_of_the_allocator_is_memory_only_where_it_can_be() -> None:
    failed = 'RuntimeError: {} INTERNAL ASSERT FAILED at "/c10/cuda/CUDACachingAllocator.cpp":838'
    assert with_message(failed.format("NVML_SUCCESS == r"))[0].id == "out-of-memory-in-disguise"
    assert with_message(failed.format("captures_underway.empty()")) == ()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "MisconfigurationException: ReduceLROnPlateau conditioned on metric val_loss which is "
            "not available. Available metrics are: ['train_loss'].",
            ["monitored-metric-missing"],
        ),
        ("MisconfigurationException: The closure returned by zebra is green.", []),
        (
            "MisconfigurationException: Invalid type provided for checkpoint_callback: Expected "
            "bool",
            ["settings-refused"],
        ),
    ],
)
def test_not_every_misconfiguration_is_of_a_file_of_settings(text: str, rows: list[str]) -> None:
    assert [each.id for each in with_message(text)] == rows


@pytest.mark.parametrize(
    ("name", "below"), [("int", "1.24"), ("object", "1.24"), ("float_", "2"), ("NaN", "2")]
)
def test_numpy_is_older_than_the_release_that_removed_the_name(name: str, below: str) -> None:
    text = f"AttributeError: module 'numpy' has no attribute '{name}'"
    assert f'"numpy<{below}"' in fitted(with_message(text)[0], text).commands[0]
