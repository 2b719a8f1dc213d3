"""Symptoms of the trained model, in the words of people."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="never-stops-generating",
        messages=(r"(?:never|does(?:n't| not)|won't|not|doesnt) stop(?:s|ping)? (?:generat|talk|"
              r"output|print)?|generat\w{1,4} (?:forever|endless|until|too long|non-?stop)|endless "
              r"(?:generation|output)|keeps (?:generating|talking)|missing (?:the )?(?:eos|end)|no "
              r"(?:eos token|end.of.(?:sequence|turn))",),
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
        messages=(r"repeat(?:s|ing|ed)? (?:it ?self|the same|tokens?|words?|sentences?|endlessly|"
              r"over)|repetitive|same (?:token|word|output|answer) (?:over|again|every|for)|"
              r"degenerate (?:text|output)",),
        examples=("repeats the same word", "output is repetitive", "same answer for every input"),
        why="Greedy decoding of a weak or overtrained model, a prompt without its template, or "
            "weights that lost their values.",
        fix="Compare with the base model under the same prompt and sampling; then evaluate earlier "
            "checkpoints.",
        role="symptom",
        commands=("doctor scan --deep CHECKPOINT",),
    ),
    Cause(id="output-is-garbage",
        messages=(r"(?:outputs?|generat\w{1,4}|produces?|prints?|answers?) (?:is |are |only "
              r")?(?:garbage|gibberish|nonsense|random|rubbish|weird)|gibberish",),
        examples=("outputs gibberish", "model produces garbage after fine-tuning"),
        why="NaN or overflow in fp16 (the token 0 prints as !), another tokenizer than in "
            "training, an adapter on another base, or weights that were not loaded.",
        fix="Look at warnings of missing keys at loading, compare the tokenizer's length with the "
            "embedding's, and search NaN in the file.",
        role="symptom",
        commands=("doctor scan --deep CHECKPOINT",),
    ),
    Cause(id="merged-model-differs",
        messages=(r"merg(?:ed?|ing) .{0,40}(?:differ|worse|degrad|wrong|not the same|quality|"
              r"garbage)|after merg(?:e|ing)|merge_and_unload",),
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
        messages=(r"(?:reload|load|sav)(?:ed|ing|es)? .{0,30}(?:model|checkpoint|weights) "
              r".{0,40}(?:differ|wors|bad|wrong|not the same|random|untrained|different)|(?:model|"
              r"results?) .{0,20}(?:differ\w*|worse|untrained|random) .{0,20}(?:after|when) "
              r"(?:load|reload|sav)",),
        examples=("loaded model gives different results than before saving",
            "results are worse after loading"),
        why="Keys were not matched (a prefix module. or _orig_mod.), only part was saved, dropout "
            "is on, or the dtype changed.",
        fix="Load with strict=True and read the list of missing keys; call eval(); compare one "
            "tensor with that of the run.",
        role="symptom",
        commands=("doctor scan CHECKPOINT",),
    ),
    Cause(id="training-has-no-effect",
        messages=(r"(?:fine-?tun\w{1,4}|training|lora|adapter) (?:has|had|have|shows?) no "
              r"(?:effect|impact|influence)|(?:model|it) (?:does(?:n't| not)|did(?:n't| not)) "
              r"(?:learn|change)|(?:same|identical) (?:output|answers?|results?) (?:as|like) "
              r"(?:the )?base",),
        examples=("fine-tuning has no effect", "the model does not learn anything",
            "same output as the base model"),
        why="The adapter is not active or was not saved with values, weights did not move (16-bit "
            "rounding, rate too small), or another file is loaded.",
        fix="The B matrices of LoRA must not be zero, and norms must differ from the base's.",
        role="symptom",
        commands=("doctor scan CHECKPOINT", "doctor scan CHECKPOINT --baseline BASE"),
    ),
    Cause(id="forgets-what-it-knew",
        messages=(r"(?:catastrophic(?:ally)? )?forget(?:s|ting|ful)?\b.{0,30}|los(?:es|t|ing) "
              r"(?:its )?(?:general|previous|base|english|other) (?:abilit|knowledge|skill)",),
        examples=("catastrophic forgetting", "loses its general abilities after fine-tuning"),
        why="The rate or the number of epochs is too high for narrow data.",
        fix="A tenth of the rate, one epoch, 5 to 20 % of general data mixed in, or LoRA with a "
            "small rank.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="inference-differs-from-training",
        messages=(r"(?:inference|production|vllm|gguf|ollama|llama\.?cpp|onnx|serving) "
              r".{0,40}(?:differ|wors|bad|wrong|not the same|different)|works? in (?:training|the "
              r"notebook) but not",),
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
    Cause(id="batch-changes-result",
        messages=(r"(?:batch(?:ed|ing)?|padding) .{0,30}(?:changes?|different|differ|affects?|"
              r"wrong) .{0,20}(?:result|output|answer|logit|generation)|different .{0,20}(?:batch "
              r"size|when batched|in a batch)",),
        examples=("batched generation gives different results", "padding changes the output"),
        why="Padding on the wrong side, no attention mask, positions that count the padding, or "
            "kernels that sum in another order (differences in the last digits).",
        fix="Left padding with an attention mask for generation; compare one prompt alone and in a "
            "batch, in fp32.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory",),
    ),
    Cause(id="quantized-model-bad",
        messages=(r"quanti[sz](?:ed|ation|ing) .{0,40}(?:wors|bad|degrad|garbage|accuracy|quality|"
              r"loss)|4-?bit .{0,30}(?:worse|garbage)",),
        examples=("quantized model is much worse", "4-bit gives garbage"),
        why="Outliers in few channels, a calibration on other data, or a group size that is too "
            "coarse for the model.",
        fix="Leave the first, last and norm layers in 16 bits, use groups of 128 or fewer and "
            "calibration on the own data; compare perplexity.",
        role="symptom",
        commands=("doctor scan CHECKPOINT",),
    ),
    Cause(id="new-tokens-unknown",
        messages=(r"(?:new|added|special) tokens? .{0,40}(?:not|n't|never|ignored|unknown|split|no "
              r"effect)|token(?:izer)? .{0,20}(?:mismatch|differs|does(?:n't| not) match)",),
        examples=("added tokens are not learned", "new tokens are split", "tokenizer mismatch"),
        why="The embedding was not resized, its new rows are not trained (LoRA without "
            "modules_to_save), or the tokenizer was not saved with the model.",
        fix="len(tokenizer) must equal the embedding's rows; train embed_tokens and lm_head with "
            "the adapter, or trainable_token_indices.",
        role="symptom",
        commands=("doctor scan CHECKPOINT",),
    ),
    Cause(id="checkpoint-too-large",
        messages=(r"checkpoint (?:size |file |is )?(?:is )?(?:too |so |very |twice |much "
              r")?(?:large|big|huge|double|twice)|(?:adapter|model) file (?:is )?(?:too |so "
              r")?(?:large|big|huge|small|empty)",),
        examples=("checkpoint is twice as large as expected", "adapter file is too small"),
        why="fp32 instead of 16 bits, the optimizer's state, tied weights stored twice, or the "
            "base model beside the adapter; a file of a few hundred bytes is an empty state or a "
            "pointer of Git LFS.",
        fix="List the tensors with their dtypes and sizes.", role="symptom",
        commands=("doctor scan --tensors CHECKPOINT",),
    ),
    Cause(id="resume-starts-over",
        messages=(r"resum\w{1,5} .{0,40}(?:from (?:step )?0|from (?:the )?(?:start|beginning|"
              r"scratch)|starts? over|ignored|does(?:n't| not) work|not work)|(?:starts?|begins?) "
              r"(?:over|from scratch) (?:after|when|instead)",),
        examples=("resume starts from step 0", "training starts over instead of resuming"),
        why="The path is not found and that is no error, the checkpoint has no trainer state, or "
            "the directory of output differs from the first run's.",
        fix="Give the path of the checkpoint itself (resume_from_checkpoint=PATH) and look for "
            "trainer_state.json, optimizer and scheduler in it.",
        role="symptom",
        commands=("doctor scan CHECKPOINT",),
    ),
    Cause(id="same-data-again",
        messages=(r"(?:same|identical|repeated) (?:data|batch(?:es)?|samples?|order) (?:every|each|"
              r"again|after|on|across)|(?:data|order) (?:is )?not shuffled|shuffle .{0,20}(?:not|"
              r"n't)",),
        examples=("same batches on all ranks", "same order every epoch",
            "data is not shuffled after resume"),
        why="set_epoch is not called, every rank has the whole dataset, workers have one seed, or "
            "the position in the data was not saved.",
        fix="Print the ids of the first batch per rank and epoch: they must differ; "
            "DistributedSampler with set_epoch(epoch).",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="labels-all-masked",
        messages=(r"(?:all|every|most) labels? (?:are |is )?(?:-100|masked|ignored)|labels? "
              r".{0,20}all -?100",),
        examples=("all labels are -100", "most labels are masked"),
        why="The response template was not found in the tokens, samples are cut before the answer, "
            "or padding and end token are one.",
        fix="Decode the labels that are not -100 of three samples; compare the template's token "
            "ids within a text, not alone; raise max_length.",
        role="symptom",
        commands=("doctor guard -- python train.py", "doctor run --model FILE.py:factory"),
    ),
    Cause(id="multi-node-does-not-start",
        messages=(r"(?:multi|two|second|several|2|other)[- ]?nodes? .{0,50}(?:fail|hang|stuck|"
              r"timeout|connect|not start)|nodes? (?:can(?:not|'t)|fail to) (?:connect|reach|"
              r"join)",),
        examples=("second node does not connect", "multi-node training is stuck at init"),
        why="MASTER_ADDR or the port is not reachable, an interface is chosen wrongly, versions "
            "differ, or one launcher was started with other numbers.",
        fix="nc -vz MASTER_ADDR PORT from every node, NCCL_SOCKET_IFNAME, and the same command on "
            "all nodes.",
        role="symptom",
        commands=("doctor run --only GPU008", 'nc -vz "$MASTER_ADDR" "$MASTER_PORT"'),
    ),
    Cause(id="zero-shard-cannot-load",
        messages=(r"(?:convert|merge|load|export) .{0,25}(?:zero|deepspeed|fsdp|sharded|dcp) "
              r"(?:shards?|checkpoints?|weights?)|(?:zero|deepspeed|fsdp|sharded|distributed) "
              r"checkpoints? .{0,30}(?:convert|load|merge|single)",),
        examples=("convert a DeepSpeed checkpoint", "merge FSDP sharded checkpoint into one file"),
        why="A sharded checkpoint is no state_dict of one file.",
        fix="DeepSpeed: zero_to_fp32.py in the checkpoint; FSDP and DCP: "
            "torch.distributed.checkpoint.format_utils.dcp_to_torch_save, or accelerate "
            "merge-weights.",
        role="symptom",
        commands=("doctor scan CHECKPOINT",),
    ),
)  # fmt: skip
