"""What the environment of a training lacks."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="compiler-missing",
        errors=("RuntimeError", "InductorError"), refines=("file-missing", "compile-failed"),
        messages=(r"No working C\+\+ compiler",
            "Failed to find a? ?C compiler",
            r"CppCompileError(?![\s\S]{0,600}:\d{1,6}: error: )",
            "InvalidCxxCompiler",
            r"(?:gcc|g\+\+): not found",
            r"No such file or directory: '(?:\S{0,60}/)?(?:gcc|g\+\+|cc|c\+\+|clang|nvcc|ninja)'",
            r"command '\S{0,60}(?:gcc|g\+\+|cc)' failed: No such file|unable to execute "
            r"'?\S{0,40}g(?:cc|\+\+)",
            r"Microsoft Visual C\+\+ 14\.\d or gr|Compiler: cl is not found|Error checking "
            r"compiler version for cl"),
        examples=("RuntimeError: Failed to find C compiler. Please specify via CC environment "
            "variable.",
            "torch._inductor.exc.CppCompileError: C++ compile error",
            "/bin/sh: 1: g++: not found",
            "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'",
            "InductorError: InvalidCxxCompiler: No working C++ compiler found",
            "error: command 'gcc' failed: No such file or directory",
            'error: Microsoft Visual C++ 14.0 or greater is required. Get it with "Microsoft '
            'C++ Build Tools"'),
        why="torch.compile and extensions compile code, and there is no C++ compiler.",
        fix="Install a C++ compiler (apt install g++ or build-essential; one that is elsewhere: "
            "CC=gcc CXX=g++ with their paths) and the headers of "
            "Python (python3-dev); on Windows Microsoft's C++ build tools with \"Desktop "
            'development with C++", then a new "x64 Native Tools" prompt. Or take a prebuilt '
            "wheel of the package, and train without torch.compile.",
        sources=("torch-inductor-errors",), owner=Owner.ENVIRONMENT),
    Cause(id="triton-missing",
        errors=("RuntimeError",), refines=("compile-failed",),
        messages=("TritonMissing",
            "working triton installation",
            "No module named 'triton'"),
        examples=("torch._inductor.exc.TritonMissing: Cannot find a working triton installation.",
            "ModuleNotFoundError: No module named 'triton'"),
        why="torch.compile needs Triton on a GPU.",
        fix="Linux: install the torch wheel of PyTorch's own index, which brings triton. Windows: "
            "pip install triton-windows in the release for this torch. Without it "
            "TORCH_COMPILE_DISABLE=1.",
        sources=("torch-inductor-errors",), owner=Owner.ENVIRONMENT),
    Cause(id="tf32-two-apis",
        errors=("RuntimeError",),
        messages=("mix of the legacy and new APIs",),
        examples=("RuntimeError: PyTorch is checking whether allow_tf32 is enabled for cuBlas "
            "matmul, but found mix of the legacy and new APIs to set the TF32 status.",),
        why="Before torch 2.15 the compiler reads the old setting of TF32 and fails if the code "
            "uses the new one.",
        fix="Set TF32 through one API only.",
        sources=("pytorch-166387",)),
    Cause(id="certificate-not-trusted",
        errors=("SSLError", "SSLCertVerificationError", "OSError"),
        refines=("hf-offline", "network-missing"),
        messages=("CERTIFICATE_VERIFY_FAILED|certificate verify failed|check_hostname requires "
            "server_hostname",),
        examples=("requests.exceptions.SSLError: HTTPSConnectionPool(host='huggingface.co', "
            "port=443): Max retries exceeded (Caused by SSLError(SSLCertVerificationError(1, "
            "'[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed "
            "certificate in certificate chain')))",
            "OSError: We couldn't connect to 'https://huggingface.co' to load this file: "
            "certificate verify failed"),
        why="A proxy of the network presents a certificate of its own, or the proxy's address "
            "has the wrong form.",
        fix="Point to the network's certificates: REQUESTS_CA_BUNDLE=FILE and "
            "SSL_CERT_FILE=FILE; give proxies as http://host:port, also in HTTPS_PROXY; check "
            "the machine's clock. Or download elsewhere and set HF_HUB_OFFLINE=1.",
        commands=("env | grep -i proxy",
            "date"),
        owner=Owner.ENVIRONMENT),
    Cause(id="network-missing",
        errors=("OSError", "ConnectionError", "SSLError", "ConnectionRefusedError"),
        messages=("couldn't connect to",
            "offline mode is enabled",
            "urlopen error",
            "Max retries exceeded(?!.{0,900}thrown while requesting)",
            r"Name or service not known|Temporary failure in name resolution|\[Errno 11[03]\] "
            r"(?:Connection timed out|No route to host)",
            "is not the path to a directory"),
        examples=("ConnectionError: Offline mode is enabled.",
            "urllib.error.URLError: <urlopen error [Errno -2] Name or service not known>",
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='example.com', "
            "port=443): Max retries exceeded with url: /data.zip",
            "OSError: absent-model is not the path to a directory containing a file named "
            "config.json",
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and "
            "couldn't find them in the cached files. Check your internet connection or see"),
        wordings=(
            Wording(r"ConnectionRefusedError|\[Errno 111\] Connection refused|\[Errno 113\] No "
                r"route to host",
                "ConnectionRefusedError: [Errno 111] Connection refused",
                "Nothing listens at that address and port: rank 0 has not started or has died, "
                "a server (vLLM, Ray, wandb, tensorboard, a proxy) is down, or a firewall is "
                "between.",
                "Find the address in the lines around it: something is to listen there, or the "
                "address is wrong. MASTER_ADDR:MASTER_PORT: start rank 0 first and open the "
                "port between the nodes. A server: look at its own log. A proxy: check HTTP_PROXY "
                "and HTTPS_PROXY.",
                ("ss -ltn",
                    "env | grep -i proxy")),),
        why="A download failed: no network, a proxy, or a name that is not resolved.",
        fix="Download the model or the data beforehand and load it from a local path "
            "(local_files_only=True), or check network, proxy and token.",
        sources=("transformers-hub",), owner=Owner.ENVIRONMENT),
    Cause(id="shell-cannot-run-it",
        refines=("file-missing", "attribute-missing"),
        wordings=(
            Wording(r"No such file or directory: '(?:git-lfs|git|ffmpeg|ffprobe|nvcc|ninja|gcc|"
                r"g\+\+|nvidia-smi)'",
                "FileNotFoundError: [Errno 2] No such file or directory: 'git-lfs'",
                "A program that a library starts is not installed, or not on PATH.",
                "Install it (apt-get install git-lfs, ffmpeg, ninja-build; conda install -c "
                "conda-forge NAME), for Git LFS then run git lfs install; on a cluster load its "
                "module in the job script.",
                ('echo "$PATH"',)),
            Wording(r"(?:torchrun|accelerate|deepspeed|python3?|nvcc|ninja|llamafactory-cli|"
                r"axolotl|swift|tune|huggingface-cli|hf|wandb|ray|srun|mpirun|git|conda|module|"
                r"source|uv|pip3?|cmake)['\x22]?: (?:command )?not found|execve\(\): .{1,200}: "
                r"No such file|is not recognized as (?:the name of a cmdlet|an internal or "
                r"external command)|(?:torchrun|accelerate|deepspeed|python|llamafactory-cli|swift|"
                r"axolotl)['\x22\u201d]? ?(?:不是内部或外部命令|项识别为)",
                "bash: accelerate: command not found",
                "The program is not installed in the environment of this shell or of this node, "
                "or its directory is not on PATH: the shell of a batch job reads no login "
                "files, which define conda and module.",
                "Activate the environment inside the job script (source .venv/bin/activate, "
                "conda activate after source ~/miniconda3/etc/profile.d/conda.sh, module load; "
                "#!/bin/bash -l for both), or name the interpreter: python -m "
                "torch.distributed.run for torchrun, python -m accelerate.commands.launch for "
                "accelerate.",
                ('echo "$PATH"; which -a python torchrun',)),
            Wording(r"(?:bash|\bsh|srun|execve\(\)): [^\n:]{1,200}: Permission denied",
                "/bin/bash: ./train.sh: Permission denied",
                "The file is not executable, or is on a file system that is mounted noexec.",
                "chmod +x FILE, or run it by its interpreter: bash FILE, python FILE.",
                ("ls -l FILE",),
                owner=Owner.JOB),
            Wording(r"line \d{1,6}: syntax error: unexpected end of file|syntax error near "
                r"unexpected token|"
                r"\$'\\r': command not found",
                "train.sh: line 53: syntax error: unexpected end of file",
                "The shell script itself is wrong: an if, for, quote or bracket is not closed, or "
                "the file has line ends of Windows.",
                "bash -n FILE names the place without running it; sed -i 's/\\r$//' FILE removes "
                "the line ends of Windows. A script for bash is run with bash, not with sh.",
                ("bash -n train.sh",),
                owner=Owner.JOB,
                more=("train.sh: line 3: $'\\r': command not found",)),
            Wording("Unable to locate a modulefile|Lmod has detected the following error",
                "Lmod has detected the following error: The following module(s) are unknown: "
                '"cuda/12.9"',
                "The cluster has no module of that name on this kind of node.",
                "module avail cuda on the same partition names those that exist. torch's wheels "
                "bring CUDA of their own: a training needs a module only to compile extensions.",
                ("module avail cuda",),
                owner=Owner.JOB),
            Wording(r"Error while finding module specification for '[\w./-]{1,80}\.py'",
                "Error while finding module specification for 'train.py' (AttributeError: module "
                "'train' has no attribute '__path__')",
                "python -m takes the name of a module, and got that of a file.",
                "python train.py, or python -m train without .py (a file in a package: python -m "
                "package.train, started above the package).",
                owner=Owner.JOB),
            Wording("attempted relative import",
                "ImportError: attempted relative import with no known parent package",
                "A file of a package was imported on its own.",
                "Give the package an __init__.py and import the file as package.module: python "
                "-m package.module runs it.",
                owner=Owner.JOB),
            Wording("EOF when reading a line",
                "EOFError: EOF when reading a line",
                "input() waits for a person, and nobody is there.",
                "Do not read from the terminal in a job: pass values as arguments or in a file.",
                owner=Owner.JOB),
            Wording(r"contains DOS line breaks|bash\^M: bad interpreter|\\r': command not found",
                "/bin/bash^M: bad interpreter: No such file or directory",
                "The script was saved with the line ends of Windows.",
                r"dos2unix run.sh, or sed -i 's/\r$//' run.sh; git config core.autocrlf input "
                r"for the next one.",
                owner=Owner.JOB)),
        why="The job's shell or interpreter cannot run the command as it was written for a "
            "terminal.",
        owner=Owner.ENVIRONMENT),
)  # fmt: skip
