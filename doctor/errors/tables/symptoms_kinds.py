"""Symptoms of models of one kind: pictures, speech, embeddings; in the words of people."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="pictures-black",
        words=(
            "black|nan|all_zero picture|pictures|image|images|samples fp16|half_precision|float16|"
            "vae|sdxl|diffusion|generat !black_and_white !dataset !loss",
        ),
        examples=("SDXL gives black images in fp16",),
        why="The decoder overflows in fp16 (the VAE of SDXL does), and NaN become black pixels; "
            "else a safety checker replaced the picture.",
        fix="Decode in fp32 (pipe.vae.to(torch.float32), or upcast_vae()), with bf16, or with a "
            "VAE made for fp16 (madebyollin/sdxl-vae-fp16-fix). If latents are NaN already, "
            "the network itself overflows: bf16 or fp32.",
        role="symptom",
        commands=("doctor run --only NUM001",),
    ),
    Cause(id="embeddings-alike",
        words=(
            "embedding|embeddings|vectors|vector|representation|representations|features|cosine|"
            "similarity|similarities same|identical|alike|collaps|close_to_1|near_1|0.99|equal|"
            "constant|all_1 !@oom !@memory !generat !image_is",
            "contrastive|infonce|simclr|clip$|siamese|triplet|sentence_transformer collaps|"
            "stuck|same|constant|ln$|not_learn|margin",
        ),
        examples=("fine-tuning the embedding model makes all vectors the same",
            "cosine similarity is 0.99 for every pair",
            "contrastive training collapses"),
        why="All inputs are mapped to one point: no negatives (or too few, or of the same text), a "
            "loss that only pulls pairs together, a learning rate that is too high, or a "
            "temperature that is too high to separate.",
        fix="Print the mean cosine between random pairs per hundred steps: it must fall. Use a "
            "loss "
            "with negatives (MultipleNegativesRanking, InfoNCE) in batches of 32 or more, without "
            "duplicates in a batch, temperature 0.02 to 0.07, a rate of 1e-5 to 2e-5 with warm-up. "
            "Without negatives: stop-gradient and a predictor, or a variance term (VICReg). Check "
            "that the pooling uses the attention mask.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="speech-text-wrong",
        words=(
            "whisper|asr|speech|transcri|wav2vec|wav2vec2|ctc wrong|other|english|language|"
            "translat|empty|blank|hallucinat|repeat|nothing|same|garbage|only !slow !@memory !@oom "
            "!import !install",
        ),
        examples=("whisper fine-tune outputs the wrong language",
            "wav2vec2 predicts only blanks",
            "whisper translates instead of transcribing"),
        why="Whisper is told language and task by its first tokens: they must be the same in "
            "labels "
            "and in generation. CTC models predict blanks alone for the first epochs, and for "
            "ever with targets longer than their input, another vocabulary or a rate that is too "
            "high. Audio at another rate than 16 kHz, or longer than 30 s, is not understood.",
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
            "blurry|blurred|washed|oversaturat|saturat|burn|burnt|fried|artefact|artifact|same|"
            "ignores_the_prompt|distort|deform !black !@memory !@oom !slow !error",
        ),
        examples=("the diffusion lora produces grey or noisy images",
            "my dreambooth model generates burnt oversaturated images",
            "flux lora images are blurry"),
        why="Burnt, saturated or always alike: overtrained (rate, steps, alpha of the adapter). "
            "Grey "
            "or noise: too few steps, another prediction type or noise schedule than the model's "
            "(epsilon against v-prediction, flow matching), latents without their scaling factor, "
            "or a VAE in fp16. Blurry: a resolution or captions unlike those of generation.",
        fix="Generate with the adapter at weight 0.3, 0.6 and 1.0 and with earlier checkpoints: if "
            "less is better, lower the rate (1e-4 for LoRA, 1e-6 to 5e-6 for all weights) or the "
            "steps. If all are noise, compare prediction_type, scheduler and "
            "vae.config.scaling_factor of training and generation, decode one training latent "
            "to see the VAE, and use the resolution and trigger words of the training.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
)  # fmt: skip
