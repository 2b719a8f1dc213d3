"""Symptoms of models of one kind: pictures, speech, embeddings; in the words of people."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="pictures-black", sources=("sliders-30",),
        words=(
            "black|nan|all_zero picture|pictures|image|images|samples fp16|half_precision|float16|"
            "vae|sdxl|diffusion|generat !black_and_white !dataset !loss>nan|rise|explod",
            "black>picture|pictures|image|images|samples diffusion|sdxl|flux|dreambooth|vae|"
            "sampling !black_and_white !dataset !loss>nan|rise|explod",
            "picture|pictures|image|images|samples|previews black diffusion|sdxl|flux|dreambooth|"
            "vae|kohya|lora|comfyui|webui 1660|1650|1630|gtx_16 !black_and_white",
        ),
        examples=("SDXL gives black images in fp16",
            "black images at sampling, the loss is normal"),
        why="The decoder overflows in fp16 (the VAE of SDXL does), and NaN become black pixels; "
            "else a safety checker replaced the picture.",
        fix="Decode in fp32 (pipe.vae.to(torch.float32), or upcast_vae(); kohya and webui: "
            "--no_half_vae), with bf16, or with a VAE made for fp16 "
            "(madebyollin/sdxl-vae-fp16-fix). If latents or the loss are NaN already, "
            "the network itself overflows: bf16 or fp32. A GTX 1630, 1650 or 1660 computes NaN in "
            "fp16: train and generate in fp32 there (mixed_precision no).",
        role="symptom",
        commands=("doctor run --only NUM001",),
    ),
    Cause(id="embeddings-alike", sources=("simsiam",),
        words=(
            "embedding|embeddings|vectors|vector|representation|representations|features|cosine|"
            "similarity|similarities same|identical|alike|collaps|close_to_1|near_1|0.99|equal|"
            "constant|all_1 !@oom !@memory !generat !image_is !should !size !vocab !column",
            "contrastive|infonce|simclr|clip$|siamese|triplet|sentence_transformer collaps|"
            "stuck|same|constant|ln$|not_learn|margin !gradient !grad !norm !@slow",
        ),
        examples=("fine-tuning the embedding model makes all vectors the same",
            "cosine similarity is 0.99 for every pair",
            "contrastive training collapses"),
        why="All inputs are mapped to one point: no negatives (or too few, or of the same text), a "
            "loss that only pulls pairs together, a learning rate that is too high, or a "
            "temperature that is too high to separate.",
        fix="Print the mean cosine between random pairs per hundred steps: it must fall. Use a "
            "loss with negatives (MultipleNegativesRanking, InfoNCE) in batches of 32 or more, "
            "without duplicates in a batch, temperature 0.02 to 0.07, a rate of 1e-5 to 2e-5 with "
            "warm-up. Without negatives: stop-gradient and a predictor, or a variance term "
            "(VICReg). Check that the pooling uses the attention mask.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="speech-text-wrong",
        words=(
            "whisper|asr|speech|transcri|wav2vec|wav2vec2|ctc wrong|other|english|language|"
            "translat|empty|blank|hallucinat|repeat|nothing|same|garbage|only !slow !@memory !@oom "
            "!import !install",
            "whisper|asr|wav2vec|wav2vec2|ctc wer$|cer$|word_error_rate @rise|above|over|high|100|"
            "130|percent|1.0$|@not !slow !@memory !@oom !import !install",
        ),
        examples=("whisper fine-tune outputs the wrong language",
            "wav2vec2 predicts only blanks",
            "whisper translates instead of transcribing"),
        why="Whisper is told language and task by its first tokens: they must be the same in "
            "labels and in generation. CTC models predict blanks alone for the first epochs, and "
            "for ever with targets longer than their input, another vocabulary or a rate that is "
            "too high. Audio at another rate than 16 kHz, or longer than 30 s, is not understood.",
        fix="Set model.generation_config.language, .task = \"transcribe\" and "
            "forced_decoder_ids = None, and make the tokenizer with the same language and task "
            "before labels are prepared; decode one label. Resample to 16 kHz, drop clips above "
            "30 s. CTC: compare vocab.json with the texts (case, signs), blank = pad token, "
            "ctc_zero_infinity=True, 1e-4 with warm-up.",
        role="symptom",
        commands=("doctor scan CHECKPOINT", "doctor lint train.py"),
    ),
    Cause(id="pictures-poor",
        words=(
            "diffusion|sdxl|flux|dreambooth|lora|stable_diffusion|unet|ddpm|vae|textual_inversion|"
            "controlnet images|image|pictures|samples|outputs|faces|generat grey|gray|noise|noisy|"
            "blurry|blurred|washed|oversaturat|saturat|burn|burnt|fried|artefact|artifact|"
            "same|stripe|melt|"
            "ignores_the_prompt|distort|deform !black !@memory !@oom !slow !error",
        ),
        examples=("the diffusion lora produces grey or noisy images",
            "my dreambooth model generates burnt oversaturated images",
            "flux lora images are blurry"),
        why="Burnt, saturated or always alike: overtrained (rate, steps, alpha of the adapter). "
            "Grey or noise: too few steps, another prediction type or noise schedule than the "
            "model's (epsilon against v-prediction, flow matching), latents without their scaling "
            "factor, or a VAE in fp16. Blurry: a resolution or captions unlike those of "
            "generation.",
        fix="Generate with the adapter at weight 0.3, 0.6 and 1.0 and with earlier checkpoints: if "
            "less is better, lower the rate (1e-4 for LoRA, 1e-6 to 5e-6 for all weights) or the "
            "steps. If all are noise, compare prediction_type, scheduler and "
            "vae.config.scaling_factor of training and generation, decode one training latent "
            "to see the VAE, and use the resolution and trigger words of the training.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="answers-in-wrong-form", sources=("transformers-tokenization",),
        words=(
            "ignor|ignores|disregard system_prompt|instruction|instructions|persona|context",
            "prompt|instruction|question back|echo|echoes|parrot generat|output|model|"
            "answer|repeats|returns",
            "tool|tools|function_call|json|xml|yaml|structured|schema|format|formatting|"
            "markdown|think|"
            "reasoning|latex|code malform|break|breaks|broken|invalid|wrong|ignor|@not|lost|"
            "missing|forgets|mess model|llm|answer|answers|output|outputs|repl|respon|generat|"
            "call|calls|calling|mode|fine_tun|finetun|lora|sft !error !checkpoint !gpu !script "
            "!log_format !config !upgrad",
            "answers|answer|responds|replies|output|outputs|speaks|writes|generates chinese|"
            "another_language|wrong_language|other_language|english|german|french|spanish|japanese "
            "although|but|instead|even_though|after|only !whisper !asr",
            "generat|generated|output|outputs|answer|answers|model|completion empty|nothing|"
            "one_word|one_token|single_word|single_token|blank|stops_early|stops_immediately|"
            "stops_after|too_short|cut_off|ends_early !box !object !detect !batch !log !wandb "
            "!class !loss_is_nan !gpu !memory !whisper !wav2vec !until !file !directory "
            "!checkpoint",
        ),
        examples=("tool calls are malformed after fine-tuning",
            "the model answers in chinese although I trained on english",
            "the generated text is empty",
            "json output breaks after lora training"),
        why="What the model is asked in differs from what it was trained on: another chat template "
            "or system prompt, a prompt without add_generation_prompt, special tokens that were "
            "stripped or split in the data, an end token in the wrong place, or samples in which "
            "that form is missing, escaped twice or cut off.",
        fix="Print one training sample as tokens with its labels, and one prompt as it is sent at "
            "inference: they must be equal up to the answer. The labels must hold the whole form "
            "(tags, braces, the end token) and not begin with an end token or white space. Count "
            "samples of that form; some hundred are needed. For JSON and tools add constrained "
            "decoding; compare with the base model under the same prompt and temperature 0.",
        role="symptom",
        commands=("doctor scan CHECKPOINT", "doctor lint train.py"),
    ),
    Cause(id="other-setup-differs",
        words=(
            "bf16|fp16|fp32|tf32|half_precision|int8 answers|outputs|output|results|"
            "predictions|logits|loss than|vs$|versus|compared|between|from fp32|bf16|fp16|"
            "float32|full_precision !slow !faster !@memory !train_loss_is_nan !diverg !nan",
            "loss|losses|accuracy|result|results|metrics|gradients|curve differ|different|higher|"
            "lower|wors|not_the_same|mismatch|deviat|larger|smaller gpus|gpu|ddp|fsdp|zero_2|"
            "zero_3|zero2|zero3|deepspeed|tensor_parallel|pipeline|nodes between|than|vs$|versus|"
            "with|on$|compared !seed !slow !faster !@memory !batch_size !accumul !quantiz !merg "
            "!resum !util !vllm !load",
            "gpus|ddp|fsdp|multi_gpu only|lower|wors|less>reach|accuracy|score|converg|result "
            "config|epochs|settings|learning_rate|one_gpu|single_gpu !it/s !speed !hour !memory",
            "flash|flash_attention|sdpa|eager|fused|compile|torch.compile|liger|bf16|tf32|amp$|"
            "kernel|triton loss|losses|result|results|output|outputs|gradient|gradients|accuracy "
            "differ|different|deviat|mismatch|not_the_same|wors !slow !faster !vllm !error",
        ),
        examples=("loss differs between 1 GPU and 8 GPUs",
            "fsdp training gives a higher loss than ddp",
            "flash attention gives different losses than sdpa"),
        why="Mostly the global batch: N processes make it N times larger, with N times fewer "
            "steps, another order of the samples and a rate that was meant for one. Else the mean "
            "of the loss over ranks with unequal tokens, a clip of local instead of global norms, "
            "dropout seeds, master weights in 16 bits. Kernels alone differ by 1e-3 (bf16) to "
            "1e-6 (fp32).",
        fix="Compare one step, not a curve: same weights, the same samples in all (batch of one "
            "process = N x the batch of each), dropout 0, fp32. Losses equal to 1e-5 and gradient "
            "norms to 1e-4 mean that all is well, and what differs is the batch or the rate. If "
            "they are not, switch one thing at a time. Of a kernel compare with float64: an error "
            "of the size of the other kernel's is none.",
        role="symptom",
        commands=("doctor run --only NUM003,SMK001", "doctor lint train.py"),
    ),
    Cause(id="run-interrupted",
        words=(
            "spot|preempt|preempted|preemption|reclaim|reclaimed|evict|evicted|interrupt|shut_down|"
            "shutdown|time_limit|walltime train|training|job|run|lost|over|checkpoint|hours|"
            "progress !error !oom !disconnect !ssh !reboot !price !cost !how_many !how_long",
            "colab|instance lost|over$|stops|stopped|ends|ended|killed|clos train|training|job|run|"
            "checkpoint|hours|progress !error !oom !disconnect !ssh !reboot !how_many !how_long",
            "lost|lose checkpoint|checkpoints|progress|hours_of_training|everything !accuracy "
            "!ability !general",
        ),
        examples=("spot instance was reclaimed and training started over",
            "job was preempted and I lost all progress",
            "cloud instance shut down and I lost the checkpoint"),
        why="The machine ends and its local disk with it: what was not on storage that outlives "
            "it, or was not found at the next start, is gone.",
        fix="Save every 15 to 30 minutes to storage outside of the machine (a volume, a bucket), "
            "with optimizer, schedule and position of the data; save on SIGTERM (Slurm "
            "--signal=B:USR1@120, two minutes on spot instances); start with resume from the "
            "latest complete checkpoint if there is one; --requeue. Try it before: doctor "
            "rehearse stops and resumes your job in small.",
        role="symptom",
        commands=("doctor run --only DSK001", "doctor scan CHECKPOINT"),
    ),
)  # fmt: skip
