"""Servers that generate beside a training: vLLM and its like, and their share of the GPU."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="engine-limits-exceeded",
        errors=("ValueError", "NotImplementedError", "AssertionError", "BadRequestError"),
        refines=("cuda-oom", "gpu-full-or-in-use"),
        messages=("No available memory for the cache blocks",
            "max seq len .{0,60}larger than the (?:maximum|available)",
            "KV cache (?:is needed|memory).{0,120}larger than the available"),
        examples=("ValueError: No available memory for the cache blocks. Try increasing "
            "`gpu_memory_utilization` when initializing the engine.",
            "ValueError: The model's max seq len (131072) is larger than the maximum number of "
            "tokens that can be stored in KV cache (83696).",
            "ValueError: To serve at least one request with max seq len 131072, 16.0 GiB KV "
            "cache is needed, which is larger than the available KV cache memory (9.8 GiB)."),
        wordings=(
            Wording("Free memory on device.{0,80}is less than desired GPU memory utilization|"
                "out of memory at .{0,80}cumem_allocator|out of memory occurred when warming up",
                "ValueError: Free memory on device (10.2/79.3 GiB) on startup is less than "
                "desired GPU memory utilization (0.9, 71.4 GiB).",
                "The engine asks for a share of the whole GPU, and the training or another "
                "process holds part of it: at its start, or when it wakes up and takes its "
                "share back.",
                "Lower gpu_memory_utilization (vllm_gpu_memory_utilization in TRL) to what is "
                "free, max_num_seqs where the sampler is warmed up, start the engine before the "
                "model, or give it a GPU of its own; end leftover processes. At wake_up(): "
                "offload optimizer and model before it generates (sleep level 2, FSDP or ZeRO "
                "offload), and call torch.cuda.empty_cache() first.",
                ("nvidia-smi",),
                more=("CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
                    "RuntimeError: CUDA out of memory occurred when warming up sampler with "
                    "1024 dummy requests.")),
            Wording(r"max_model_len \(\d{1,9}\) is greater than the derived",
                "ValueError: User-specified max_model_len (32768) is greater than the derived "
                "max_model_len (max_position_embeddings=4096 or model_max_length=None in "
                "model's config.json).",
                "The engine is asked for longer sequences than config.json says that the model "
                "has positions for.",
                "Lower max_model_len to what the message derives (prompt and completion "
                "together), or take a model for longer contexts; with RoPE give the scaling "
                "that the model's card names (hf_overrides / rope_scaling). "
                "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 only silences it: positions beyond the limit "
                "give nonsense or fail."),
            Wording(r"max_tokens must be at least 1, got -\d",
                "ValueError: max_tokens must be at least 1, got -239.",
                "The prompt alone is longer than the engine's max_model_len, so that nothing is "
                "left for an answer: the number says by how many tokens.",
                "Drop or cut prompts that are longer than max_model_len less the completion "
                "(verl: data.filter_overlong_prompts=True; ms-swift: --max_length with "
                "--truncation_strategy delete), or raise vllm_max_model_len to prompt plus "
                "completion. In a dialogue of many turns it holds for all turns together."),
            Wording(r"prompt \(?(?:length|contains|has|of)?[^\n]{0,40}longer than the maximum "
                r"model length|(?:[Ii]nput|[Pp]rompt|[Ss]equence)(?: length| "
                r"tokens)?[^\n]{0,40}(?:exceeds?|is larger than|longer "
                r"than)[^\n]{0,20}max_(?:model_len|length|prompt_length|seq_len)|maximum "
                r"context length is \d{2,9} tokens",
                "ValueError: The decoder prompt (length 5210) is longer than the maximum model "
                "length of 4096. Make sure that `max_model_len` is no smaller than the number "
                "of text tokens.",
                "A prompt has more tokens than the engine or the data set takes; pictures and "
                "earlier turns count as well.",
                "Drop or cut long prompts before the run (verl: "
                "data.filter_overlong_prompts=True, data.truncation=left; TRL: "
                "max_prompt_length), or raise the limit: max_model_len at least prompt plus "
                "completion, data.max_prompt_length. For pictures lower max_pixels; in a "
                "dialogue of many turns the limit holds for all turns together.",
                more=("NotImplementedError: sequence length is larger than max_length: 1200 > "
                    "1024",
                    "BadRequestError: This model's maximum context length is 4096 tokens. "
                    "However, you requested 5210 tokens"))),
        why="The engine that generates finds too little free memory, or is asked for longer "
            "texts than it takes.",
        fix="Lower max_model_len (vllm_max_model_length in TRL) to what prompts and completions "
            "need, raise gpu_memory_utilization if nothing else uses the GPU, or shard the "
            "engine (tensor_parallel_size).",
        sources=("vllm-2418", "qwen3-295")),
    Cause(id="memory-freed-while-profiling",
        errors=("AssertionError",),
        messages=(r"Error in memory profiling",),
        examples=("AssertionError: Error in memory profiling. Initial free memory 10 GiB, current "
              "12 GiB.",),
        why="While the engine measured the GPU's memory, another process gave some of it back: a "
            "leftover of an earlier run that ended, a second engine, or a training on the same "
            "GPU. The engine had begun to measure with that memory in use.",
        fix="Start again when nvidia-smi shows no other process on the GPU: wait until earlier "
            "runs have ended, start engines one after another, and give each a GPU of its own "
            "(an exclusive node, CUDA_VISIBLE_DEVICES).",
        commands=("nvidia-smi",), owner=Owner.ENVIRONMENT, retry="again",
    ),
    Cause(id="engine-failed-to-start", code="LOG074",
        title="The engine that generates started",
        errors=("RuntimeError",),
        messages=(r"Engine core initialization failed",
            r"EngineDeadError|EngineCore encountered (?:a fatal error|an issue)",
            r"Background loop has errored already"),
        examples=("RuntimeError: Engine core initialization failed. See root cause above. Failed "
              "core proc(s): {}",
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack "
              "trace (above) for the root cause.",
            "vllm.engine.async_llm_engine.AsyncEngineDeadError: Background loop has errored "
              "already."),
        why="A process of the engine ended; this line of another process says only that.",
        fix="Read the first error of the engine's own processes above (EngineCore, Worker).",
        role="consequence", sources=("python-exceptions",),
    ),
)  # fmt: skip
