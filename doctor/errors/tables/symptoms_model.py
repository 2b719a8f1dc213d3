"""Symptoms of the trained model, in the words of people."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="never-stops-generating", sources=("transformers-data-collator",),
        words=(
            "repeat|repeats|repeating|keeps|goes_on|continues|rambles until|till|up_to "
            "max_new_tokens|max_tokens|max_length|limit|maximum",
            "keeps|goes_on|continues generating|talking|writing|answering|producing|"
            "inventing|asking model|llm|llama|qwen|mistral|gemma|chatbot|bot$|assistant|answer|"
            "generat|talk|completion|token|text|repl|it$ !gibberish !nonsense !checkpoint !log$ "
            "!logs !file !disk !wandb !loader !dataloader !worker !embedding",
            "writes|invents|answers|generates|asks|makes_up next|another|more|new|own|user "
            "user_turn|turn|turns|question|questions|prompt|message after|itself|instead|"
            "then|answer",
            "hits|reaches|runs_into|always max_new_tokens|max_tokens|token_limit|"
            "length_limit answer|generat|output|model|completion|every",
            "@not>stop|end$|finish|terminat generat|talk|output|print|until|answer|token|"
            "model|llama|qwen|after",
            "generat|output|talk|answer endless|forever|non_stop|nonstop|until_max|"
            "max_length|too_long|keeps|rambl !repeat",
            "missing|no$|without eos|end_token|end_of_sequence|end_of_turn",
        ),
        examples=("never stops generating",
            "the model keeps generating until max length",
            "does not stop after the answer",
            "missing EOS"),
        why="The end token was not learned: it is masked because it is the padding token, missing "
            "in the data, cut off by the limit of length, or another one than the template's.",
        fix="Decode one training sample with its labels: the last label that is not -100 must be "
            "the end token of the chat template. Give pad_token a token of its own, and set "
            "eos_token_id of the generation config.",
        role="symptom",
        commands=("doctor scan CHECKPOINT", "doctor lint train.py"),
    ),
    Cause(id="repeats-itself",
        words=(
            "same|identical|one sentence|answer|answers|text|output|reply|response|words "
            "no_matter|whatever|regardless|for_any|every_prompt|every_question|"
            "any_question|any_prompt",
            "repeat|repeats|repeating answer|answers|response|line|paragraph|question|text|"
            "same !until !max_new_tokens !twice !whisper|asr|wer$|speech !!reward|ppo$|grpo",
            "stuck|loop|loops|looping loop|token|word|phrase|sentence generat|output|"
            "answer|decod|inference|text !the_loss !train",
            "repeat|repeats|repeating|repeated itself|same|token|tokens|word|words|"
            "sentence|sentences|endless|over|phrase|output|generat !whisper|asr|wer$|speech "
            "!!reward|ppo$|grpo",
            "repetit",
            "same token|word|output|answer|sentence|phrase|text|caption over_and_over|"
            "again|for_every|for_each|for_all|every_time",
            "loops|looping same|sentence|phrase|words|answer|output",
        ),
        examples=("repeats the same word", "output is repetitive", "same answer for every input"),
        why="Greedy decoding of a weak or overtrained model, a prompt without its template, or "
            "weights that lost their values.",
        fix="Compare with the base model under the same prompt and sampling; then evaluate earlier "
            "checkpoints.",
        role="symptom",
        commands=("doctor scan --deep CHECKPOINT",),
    ),
    Cause(id="output-is-garbage",
        words=(
            "output|outputs|generat|produc|print|answer|answers|response|responses|samples "
            "garbage|gibberish|nonsense|random_text|random_words|random_tokens|random_char|"
            "rubbish|weird|jibberish !not>garbage|gibberish|nonsense !gguf|ollama|onnx|merge|"
            "merged",
            "gibberish|jibberish",
            "exclamation_mark|exclamation_marks|exclamation output|prints|answer|generat|"
            "only|model",
        ),
        examples=("outputs gibberish", "model produces garbage after fine-tuning"),
        why="NaN or overflow in fp16 (the token 0 prints as !), another tokenizer or prompt format "
            "than in training, an adapter on another base, weights that were not loaded, or labels "
            "that were shifted twice.",
        fix="Where the loss fell well: generate with the very format of the training "
            "(apply_chat_template with add_generation_prompt=True, padding on the left), and leave "
            "the shift of the labels to the model. Look at warnings of missing keys at loading, "
            "compare the tokenizer's length with the embedding's, and search NaN in the file.",
        role="symptom",
        commands=("doctor scan --deep CHECKPOINT",),
    ),
    Cause(id="merged-model-differs", sources=("peft-lora-bnb",),
        words=(
            "merg|merge|merged @bad|quality|degrad|not_the_same|4bit|quantiz",
            "merge_and_unload",
            "merge|merged|merging|merge_and_unload answers|output|outputs|quality|model|results|"
            "loss|result @bad|degrad|mistakes|not_the_same !conflict !dataset !branch",
        ),
        examples=("merged model differs from the adapter", "quality is worse after merging",
            "merge_and_unload gives bad results"),
        why="The adapter was trained on a quantized base and merged into another, the sum was "
            "rounded in 16 bits, or modules_to_save and new tokens were left out.",
        fix="Load the base in fp32 or bf16, merge, and compare logits of one prompt before and "
            "after; a quantized base: dequantize it first. Save the tokenizer with it.",
        role="symptom",
        commands=("doctor scan ADAPTER", "doctor scan MERGED"),
    ),
    Cause(id="saved-model-differs",
        words=(
            "load|loaded|loading|reload|saved|saving|save model|weights|checkpoint|file|folder|"
            "inference @bad|different|random|accuracy|predictions|results|perform !merg "
            "!slow !minutes !resum",
            "after_loading|after_saving|after_reloading|when_loaded @bad|different|random "
            "!merg !resum",
            "load|loaded|loading|reload|save|saved|saving|restart new_session|new_python|next_day|"
            "another_script|new_notebook|another_notebook|other_notebook|new_process|new_kernel|"
            "test_script|before_restart|today|next_morning "
            "@bad|different|random|accuracy|0%|predictions !merg !resum",
            "loss start|begin|initial load|loaded|loading checkpoint|weights|pretrained 9.|10.|11.|"
            "12.|should_be|expected|instead_of !resum !scratch !merg",
        ),
        examples=("loaded model gives different results than before saving",
            "results are worse after loading",
            "loss starts at 11.7 after loading my checkpoint"),
        why="Keys were not matched (a prefix module. or _orig_mod.), only part was saved, dropout "
            "is on, the dtype changed, or labels and vocabulary were numbered anew (a set has "
            "another order in each process). A loss near the logarithm of the vocabulary (11.8 "
            "for 128,256 tokens) is that of weights that were not loaded at all.",
        fix="Load with strict=True and read the list of missing keys; call eval(); compare one "
            "tensor with that of the run. If the weights are equal, print the numbers of classes "
            "and words in both processes: sort them (sorted(set(labels))) and save the mapping "
            "with the model.",
        role="symptom",
        commands=("doctor scan CHECKPOINT",),
    ),
    Cause(id="training-has-no-effect",
        words=(
            "lora|adapter|fine_tun|finetun|sft|train|trains|training quality|answers|"
            "outputs|output|behaviour|behavior|cognition|identity|knowledge|model|style @not "
            "chang|differ|improv at_all|any !loss",
            "how|check|verify|know|tell|see|whether lora|adapter|fine_tun|finetun|training "
            "trained|learns|learned|works|worked|applied|active|effect|does_something "
            "!loss !time !slow !gpu !reward",
            "adapter|lora|fine_tun|finetun|dpo|sft no_effect|nothing|no_change|not_applied|"
            "not_used|ignored|unchanged|same_as_base|like_the_base|like_before|"
            "no_different|identical",
            "fine_tun|finetun|training|lora|adapter no_effect|no_impact|no_influence|"
            "no_difference",
            "same|identical|like|equal output|outputs|answers|answer|results|generations|"
            "responses|behav base|before|original|pretrained|untrained",
            "weights|parameters|params @not|same|identical chang|updat|move|same|after",
        ),
        examples=("fine-tuning has no effect", "same output as the base model"),
        why="Weights did not move (updates lost to 16-bit rounding, rate too small, an optimizer "
            "that was built before the model was wrapped), the loss was over no token (assistant "
            "masks without generation markers in the template), the adapter is not active or was "
            "saved without values, or another file is loaded.",
        fix="Compare the weights with those of the base first. Equal: keep fp32 weights and "
            "compute under autocast, build the optimizer after wrapping (fsdp_use_orig_params), "
            "decode the labels that are not -100. Different: the B matrices of LoRA must not be "
            "zero, the adapter must be active, and the loaded file the trained one.",
        role="symptom",
        commands=("doctor scan CHECKPOINT", "doctor scan CHECKPOINT --baseline BASE"),
    ),
    Cause(id="forgets-what-it-knew",
        words=(
            "unlearn|unlearned|catastrophic|lost_its|no_longer|cannot|cant$|stopped|"
            "anymore|any_more|used_to chat|follow|instruction|instructions|speak|english|"
            "answer|reason|refus|code|skills|general|know fine_tun|finetun|sft|lora|dpo|train|"
            "model|llama|qwen|mistral|it$|after !load !training_script !start !memory !gpu !laptop "
            "!bios !keyboard",
            "forget|forgot|forgets|forgetting",
            "unable|cannot|cant$|not_able anything_else|everything_else|nothing_else|other_tasks|"
            "other_things|small_talk",
            "los|loses|lost|losing general|previous|base|english|other|original abilit|"
            "knowledge|skill|capabilit",
        ),
        examples=("catastrophic forgetting", "loses its general abilities after fine-tuning"),
        why="The rate or the number of epochs is too high for narrow data.",
        fix="A tenth of the rate, one epoch, 5 to 20 % of general data mixed in, or LoRA with a "
            "small rank.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="inference-differs-from-training",
        words=(
            "gguf|ollama|llama.cpp|llamacpp|vllm|sglang|onnx|tensorrt|export|exported|"
            "deployed nonsense|garbage|gibberish|rubbish|differ|wrong|bad|wors|other|"
            "stupid|dumb while|but|although|fine|good|works|correct|transformers|notebook|"
            "hf$|huggingface !slow !memory",
            "inference|production|vllm|sglang|gguf|ollama|llama.cpp|llamacpp|onnx|serving|"
            "deploy|deployed|tensorrt @bad|different|mismatch|not_the_same",
            "works training|notebook but_not|not_in",
        ),
        examples=("vLLM output differs from transformers",
            "inference is worse than in training",
            "works in the notebook but not in production"),
        why="Another template, a double beginning token, another dtype or attention kernel, "
            "sampling, or weights that were converted wrongly.",
        fix="Compare the token ids of the prompt first, then the logits of the first token, in one "
            "dtype.",
        role="symptom",
        commands=("doctor scan CHECKPOINT",),
    ),
    Cause(id="batch-changes-result", sources=("transformers-modeling",),
        words=(
            "batch|batched|batching|padding|pad$|left_padding chang|differ|different|affect|"
            "wrong|depend|influence result|results|output|outputs|answer|logits|generation|"
            "prediction !accumul !larger !increas",
            "batch_size_1|batch_of_1|batch_1|batch_size_of_1 accuracy|acc$|exact_match|score|bleu|"
            "rouge|f1|result|results|answers eval|evaluat|inference|generat|decod|predict !train "
            "!@memory !accumul",
            "padding|pad$|left_padding|pad_token|shorter|different_length|different_lengths "
            "batch|batched|batch_size|together|prompts generat|output|outputs|answer|inference "
            "@bad|nonsense|empty|pad$|strange|broken !train",
        ),
        examples=("batched generation gives different results", "padding changes the output"),
        why="Padding on the wrong side, no attention mask, positions that count the padding, or "
            "kernels that sum in another order (differences in the last digits).",
        fix="Left padding with an attention mask for generation; compare one prompt alone and in a "
            "batch, in fp32.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory",),
    ),
    Cause(id="quantized-model-bad",
        words=(
            "qat$|quantization_aware|quantisation_aware|fake_quant",
            "quantiz|quantis|quantized|4bit|4_bit|8bit|8_bit|int8|int4|awq|gptq|gguf|"
            "q4_k_m|nf4|fp8 perplexity|ppl|score|scores|accuracy|benchmark huge|high|"
            "higher|explod|drop|drops|fall|falls|bad|wors|jump|lower|poor|lost !merg !train",
            "quantiz|quantis|quantized|4bit|4_bit|8bit|8_bit|int8|int4|awq|gptq @bad|quality|"
            "garbage|accuracy !merg !train",
        ),
        examples=("quantized model is much worse", "4-bit gives garbage"),
        why="Outliers in few channels, a calibration on other data, or a group size that is too "
            "coarse for the model.",
        fix="Leave the first, last and norm layers in 16 bits, use groups of 128 or fewer and "
            "calibration on the own data; compare perplexity.",
        role="symptom",
        commands=("doctor scan CHECKPOINT",),
    ),
    Cause(id="new-tokens-unknown", sources=("peft-new-tokens",),
        words=(
            "after|since new|adding|added|special|resiz token|tokens|embedding|vocab "
            "perplexity|loss|quality|output @rise|goes_up|wors|bad|huge|high|jump|spik|"
            "nonsense",
            "new|newly|added|special|additional>token>@not|unknown|split|random|no_effect|"
            "untrained !stop !generat !eos",
            "ignor>new|added|special>token",
            "added|add|adding words|tokens|vocab|vocabulary tokenizer|resiz|embedding "
            "ignor|never|strange|split|unknown|not_learn|no_effect !eos !stop !pad_token",
            "tokenizer|vocab mismatch|not_match|differ",
        ),
        examples=("added tokens are not learned", "new tokens are split", "tokenizer mismatch"),
        why="The embedding was not resized, its new rows are not trained (LoRA without "
            "modules_to_save), or the tokenizer was not saved with the model.",
        fix="len(tokenizer) must equal the embedding's rows; train embed_tokens and lm_head with "
            "the adapter, or trainable_token_indices.",
        role="symptom",
        commands=("doctor scan CHECKPOINT",),
    ),
    Cause(id="checkpoint-too-large",
        words=(
            "merg|merged|saved|checkpoint|checkpoints|adapter twice|double|doubled|half|"
            "huge|larger|bigger large|big|size|as_large|as_big|gb|than !@memory !slow "
            "!batch !loss !accuracy",
            "adapter|safetensors|checkpoint|pytorch_model|adapter_model bytes|1kb|1_kb|443|kb$",
            "checkpoint|checkpoints gb where_does|why|so_large|so_big|so_much|come_from|comes_from|"
            "deleted|remove !@oom !@memory !slow !disk",
            "checkpoint|adapter|model|file|safetensors size|file|gb|mb|checkpoint large|big|"
            "huge|twice|double|small|empty|tiny|bytes|1kb|1_kb|kb$|only_kb !batch !memory",
        ),
        examples=("checkpoint is twice as large as expected", "adapter file is too small"),
        why="fp32 instead of 16 bits, the optimizer's state, tied weights stored twice, or the "
            "base model beside the adapter; a file of a few hundred bytes is an empty state or a "
            "pointer of Git LFS.",
        fix="List the tensors with their dtypes and sizes. An adapter without tensors was saved "
            "from a state_dict that the script had replaced (remove the lines that set "
            "model.state_dict = ..., as old alpaca-lora scripts have them), or from shards of "
            "ZeRO-3 or FSDP that were not gathered: train again, or save with the trainer's own "
            "save_model.", role="symptom",
        commands=("doctor scan --tensors CHECKPOINT",),
    ),
    Cause(id="resume-starts-over",
        words=(
            "resum|resume|resuming|restart|resume_from_checkpoint from_0|from_step_0|step_0|"
            "from_start|from_scratch|beginning|starts_over|ignored|not_work|epoch_0|"
            "from_zero|not_resum",
            "resum|resume|resuming|resumed learning_rate|lr$|scheduler @zero|reset|starts|again|"
            "warms !param_groups",
        ),
        examples=("resume starts from step 0", "training starts over instead of resuming"),
        why="The path is not found and that is no error, the checkpoint has no trainer state, or "
            "the directory of output differs from the first run's.",
        fix="Give the path of the checkpoint itself (resume_from_checkpoint=PATH) and look for "
            "trainer_state.json, optimizer and scheduler in it.",
        role="symptom",
        commands=("doctor scan CHECKPOINT",),
    ),
    Cause(id="multi-node-does-not-start",
        words=(
            "multi_node|multinode|two_nodes|2_nodes|second_node|several_nodes|other_node|"
            "nodes|node|worker_node|two_servers|2_servers|servers|second_server|two_machines|"
            "2_machines|second_machine|other_machine|machines|second_host|master|master_node|"
            "two_pcs|2_pcs|pcs$|nnodes|master_addr @not|fails|@hang|timeout|timed_out|unable|wait|"
            "waits|"
            "waiting|forever connect|start|join|reach|init|rendezvous|communicat|@hang|timeout|"
            "torchrun",
            "rendezvous|rdzv wait|waits|waiting|give_up|gives_up|timeout|timed_out|fails|@not|"
            "forever",
        ),
        examples=("second node does not connect", "multi-node training is stuck at init"),
        why="MASTER_ADDR or the port is not reachable, an interface is chosen wrongly, versions "
            "differ, or one launcher was started with other numbers.",
        fix="nc -vz MASTER_ADDR PORT from every node while the first one waits (ping and ssh use "
            "other ports: open this one in the firewall). hostname -i on the first node must not "
            "be 127.0.1.1. Then NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME with the interface of "
            "that address, and the same command on all nodes, but for the node's rank.",
        role="symptom",
        commands=("doctor run --only GPU008", 'nc -vz "$MASTER_ADDR" "$MASTER_PORT"'),
    ),
    Cause(id="zero-shard-cannot-load",
        words=(
            "checkpoint|checkpoints|state|resum|load gpus|ranks|nodes|world_size|8$ on_4|"
            "on_2|on_1|fewer|other_number|different_number|another_number|single_gpu|"
            "one_gpu|less_gpus|more_gpus @not|fails|error|mismatch !memory !oom !slow",
            "convert|merge|load|export|consolidate|combine zero|zero_3|deepspeed|fsdp|"
            "sharded|dcp|distributed shards|shard|checkpoint|checkpoints|weights|single|one_file "
            "!loss !restart",
        ),
        examples=("convert a DeepSpeed checkpoint", "merge FSDP sharded checkpoint into one file"),
        why="A sharded checkpoint is no state_dict of one file.",
        fix="DeepSpeed: zero_to_fp32.py in the checkpoint; FSDP and DCP: "
            "torch.distributed.checkpoint.format_utils.dcp_to_torch_save, or accelerate "
            "merge-weights.",
        role="symptom",
        commands=("doctor scan CHECKPOINT",),
    ),
    Cause(id="worse-than-base",
        words=(
            "benchmark|benchmarks|score|scores|accuracy|mmlu|gsm8k|eval|evaluation|results|quality|"
            "performance|answers|downstream|model wors|lower|drop|drops|below|fell|decreas|degrad|"
            "hurts|less than|compared|before|after base|original|pretrained|untuned|start|"
            "instruct|fine_tun|finetun|sft !merg !quantiz !batch !load !resum !identical "
            "!throughput !speed !slower !gpu>perform|degrad|clock !paper !than_after",
            "fine_tun|finetun|sft|lora|dpo|training hurts|degrad|destroy|ruin|damag|wors model|"
            "score|benchmark|accuracy|quality|performance|it$ !merg !quantiz !batch !throughput "
            "!speed !slower !gpu>perform|degrad|clock !disk",
            "loss>great|fine|good|falls|low|decreas>but>benchmark|score|accuracy|quality|answers|"
            "downstream wors|bad|lower|drop|poor|below",
        ),
        examples=("benchmark score got worse than the base model after fine-tuning",
            "fine-tuning made the model worse"),
        why="The evaluation does not use the format of the training (template, system prompt, "
            "stop), the model forgot what the benchmark asks for (a rate or epochs that are too "
            "high, narrow data), or the data teach another style of answer than it counts.",
        fix="First evaluate the base with the same command: its score must be the published one. "
            "Then the tuned model with the chat template of its training, and read ten of its "
            "answers: right answers that are not counted mean the format; wrong ones mean "
            "forgetting, so a tenth of the rate, one epoch, LoRA with a small rank, 5 to 20 % of "
            "general data. Compare an early checkpoint.",
        role="symptom",
        commands=("doctor scan CHECKPOINT", "doctor triage train.log"),
    ),
)  # fmt: skip
