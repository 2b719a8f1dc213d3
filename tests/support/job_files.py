"""Texts of job files."""

FULL = """
[job]
probes = false
rehearse = true
ranks = 2
device = "cuda"
precision = "bf16"
recipe = "amp"
gpus = 8
params = "8B"
trainable = 40_000_000
hf = "model"
optimizer = "adamw-8bit"
batch-size = 4
seq_len = 2048
lora = 16
shards = 8
checkpointing = true
checkpoint = "runs/checkpoint-5"
output-dir = "runs"
cache_dir = "~/cache"
keep = 3
quick = true
memory_test = false
smoke = false
attention = [1, 32, 2048, 128]
attention_mask = "causal"
compile = false
layers = 2
weights = true
expect-no-grad = ["*.bias"]

[expect]
gpu = "H100"
count = 8
memory = "80GB"
driver = ">=570"
torch = "2.11"
cuda = "13.0"
shm = "8GiB"
host-memory = "1TB"
cpus = 64
disk = { "/data" = "500GB", scratch = "1.5TB" }

[[ignore]]
code = "NUM003"
reason = "known"
until = 2030-01-31
host = "node-*"

[severity]
MEM = "warn"
"""
"""Every key that a file may set, but for those that execute code."""

CODE = '[job]\nmodel = "evil.py:make"\npython = "bin/python"\ncheckpoint = "https://host/x"'
"""Keys that execute code or open an address."""
