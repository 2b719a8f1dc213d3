"""How processes ended: signals, schedulers, exceptions."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording
from doctor.errors.tables.commands import LD_PATHS

ROWS = (
    Cause(id="killed-sighup",
        messages=("closing signal SIGHUP",
            "Received 1 death signal",
            r"got signal: 1\b",
            r"Signal 1 \(SIGHUP\) received|exitcode {1,6}: -1 \(pid"),
        examples=("WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, "
            "shutting down workers",
            "Sending process 2512 closing signal SIGHUP",
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 2506 got "
            "signal: 1",
            "traceback : Signal 1 (SIGHUP) received by PID 4410"),
        why="The terminal or the SSH connection that the training was started from was closed.",
        fix="Start the training in tmux or screen, with setsid, or as a batch job (Slurm, "
            "systemd-run --user), and resume from the last checkpoint. nohup alone does not "
            "protect torchrun, which handles SIGHUP itself.",
        commands=("setsid torchrun ... > train.log 2>&1 < /dev/null &",),
        title="No process received SIGHUP", sources=("ms-swift-64", "rrhf-35"),
        retry="again", code="LOG035"),
    Cause(id="scheduler-ended",
        messages=(r"CANCELLED AT \S{1,40} (?P<reason>DUE TO (?:TIME LIMIT|PREEMPTION|NODE "
            r"FAILURE[^*]{0,60}))",
            r"(?P<requeue>CANCELLED AT \S{1,40} DUE TO JOB REQUEUE)",
            r"CANCELLED AT \d",
            "(?P<evicted>The node was low on resource|Pod was preempted|Preempted by pod|"
            "TerminationByKubelet|Pod ephemeral local storage usage exceeds)",
            "(?P<spot>[Ss]pot (?:instance )?interruption notice|instance-action\\W{1,3}terminate|"
            "google_metadata_script_runner.{0,60}(?:is being|was|has been) preempted|"
            r"compute\.instances\.preempted)",
            r"srun: error: Node failure on (?P<node>[\w-]{1,60})"),
        examples=("slurmstepd: error: *** JOB 1234 ON node01 CANCELLED AT 2026-11-20T12:00:00 "
            "DUE TO TIME LIMIT ***",
            "slurmstepd: error: *** STEP 1234.0 ON node01 CANCELLED AT 2026-11-20T12:00:00 DUE "
            "TO PREEMPTION ***",
            "slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO JOB "
            "REQUEUE",
            "slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***",
            "Evicted: The node was low on resource: ephemeral-storage.",
            "EC2 Spot interruption notice received",
            "google_metadata_script_runner: instance is being preempted",
            "srun: error: Node failure on b203"),
        wordings=(
            Wording("DUE TO TIME LIMIT",
                "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-20T12:00:00 DUE TO "
                    "TIME LIMIT ***",
                "The job reached the time limit that was asked for. The training itself may have "
                    "been healthy.",
                "Ask for the time that the run needs (--time), save checkpoints often enough (or "
                    "--signal=B:USR1@120 to save before the end), and resume from the last one."),
        ),
        why="The scheduler reached the job's time limit, preempted it, lost a node, or was told "
            "to cancel it. The training itself may have been healthy. srun also cancels a step "
            "of which one task failed.",
        fix="Save checkpoints often enough, resume from the last one, and ask for the time that "
            "the run needs (or --signal=B:USR1@120 to save before the end).",
        commands=("sacct -j JOBID --format=JobID,State,ExitCode,Elapsed,Timelimit,MaxRSS",),
        title="The scheduler did not end the job", yields_to=("killed-sigkill",),
        sources=("slurm-preempt",), owner=Owner.ENVIRONMENT, retry="again", code="LOG036"),
    Cause(id="killed-sigterm",
        messages=(r"got signal: 15\b",
            "Received 15 death signal",
            r"Received Signals\.SIGTERM death signal",
            r"Signal 15 \(SIGTERM\) received",
            r"\bReceived SIGTERM: 15\b",
            r"failed \(exitcode: -15\)|exitcode {1,6}: -15 \(pid|return code = -15\b",
            "terminated with signal SIGTERM"),
        examples=("torch.distributed.elastic.multiprocessing.api.SignalException: Process 2506 "
            "got signal: 15",
            "torch.distributed.elastic.agent.server.api: [WARNING] Received 15 death signal, "
            "shutting down workers",
            "Received Signals.SIGTERM death signal, shutting down workers",
            "traceback : Signal 15 (SIGTERM) received by PID 88",
            "[rank: 0] Received SIGTERM: 15",
            "failed (exitcode: -15) local_rank: 1 (pid: 77)",
            "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with "
            "signal SIGTERM"),
        why="SIGTERM asks a process to end: a launcher sends it to the peers of a failed rank, "
            "a scheduler at the time limit, Kubernetes before it evicts a pod.",
        fix="Look for the rank that failed before. If none did, ask the scheduler why it ended "
            "the job, and resume from the last checkpoint.",
        title="No process was ended by SIGTERM", sources=("pytorch-160908",),
        owner=Owner.ENVIRONMENT, retry="again", role="consequence", code="LOG037"),
    Cause(id="interrupted",
        messages=(r"(?:^|[\s:])KeyboardInterrupt\b",
            r"Received 2 death signal|got signal: 2\b|Received Signals\.SIGINT death signal",
            r"failed \(exitcode: -2\)|exitcode {1,6}: -2 \(pid|return code = -2\b"),
        examples=("KeyboardInterrupt",
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got "
            "signal: 2",
            "failed (exitcode: -2) local_rank: 0 (pid: 7)"),
        why="Ctrl-C, a notebook's stop button, or a SIGINT from a scheduler.",
        fix="Resume from the last checkpoint: somebody, or a scheduler's SIGINT, stopped the "
            "training.",
        title="Nobody interrupted the training", sources=("python-exceptions",),
        retry="again", role="exception", code="LOG038"),
    Cause(id="segmentation-fault",
        messages=("xit status (?:3221225477|-1073741819)|exit code:? (?:3221225477|-1073741819)",
            "[Ss]egmentation fault|Segfault encountered",
            r"Signal 11 \(SIGSEGV\)|exitcode {0,6}: -11[ )]|terminated with signal SIGSEGV|"
            r"exited on signal 11\b|died from signal 11\b|return code = -11\b|exit code:? 139\b",
            r"Signal 4 \(SIGILL\)|exitcode {0,6}: -4[ )]|Illegal instruction \(core dumped\)",
            r"Signal 8 \(SIGFPE\)|exitcode {0,6}: -8[ )]|Floating point exception",
            r"corrupted size vs\. prev_size|double free or corruption|free\(\): invalid|"
            r"free\(\): corrupted|malloc\(\): \w{5,}|munmap_chunk\(\): invalid",
            r"refcount error in a C extension|Fatal Python error: (?:none_dealloc|_Py_\w)"),
        examples=("subprocess.CalledProcessError: Command 'python' returned non-zero exit "
            "status 3221225477.",
            "Segmentation fault (core dumped)",
            "traceback : Signal 11 (SIGSEGV) received by PID 77",
            "Illegal instruction (core dumped)",
            "Floating point exception (core dumped)",
            "free(): invalid pointer",
            "Fatal Python error: none_dealloc: deallocating None: bug likely caused by a "
            "refcount error in a C extension",
            "!!!!!!! Segfault encountered !!!!!!!"),
        why="Compiled code crashed: extensions built for another torch, mixed CUDA libraries, "
            "or a defect of a kernel or a decoder.",
        fix="Start python with -X faulthandler to see the Python line. Reinstall torch and its "
            "extensions in a fresh environment; check LD_LIBRARY_PATH and LD_PRELOAD. Where the "
            "same program runs on other nodes, examine this one.",
        commands=("python -X faulthandler train.py",
            *LD_PATHS),
        title="No process crashed in native code", sources=("python-faulthandler",),
        owner=Owner.ENVIRONMENT, role="crash", next_check="TOR004", code="LOG039"),
    Cause(id="process-aborted",
        messages=("terminate called after throwing an instance of 'c10::Error'",
            r"Signal 6 \(SIGABRT\)|exitcode {0,6}: -6[ )]|terminated with signal SIGABRT|return "
            r"code = -6\b|exit code:? 134\b|Aborted \(core dumped\)"),
        examples=("terminate called after throwing an instance of 'c10::Error'",
            "traceback : Signal 6 (SIGABRT) received by PID 77"),
        why="A process ended itself: a C++ exception or assertion, or NCCL's watchdog after an "
            "error of this or another rank. The reason stands in the lines before.",
        fix="Look in the lines before, of the same process, for `terminate called`, `Assertion "
            "... failed`, `what():` or a watchdog's report; TORCH_SHOW_CPP_STACKTRACES=1 shows "
            "the stack.",
        title="No process aborted itself", yields_to=("nccl-timeout",),
        sources=("python-faulthandler",),
        owner=Owner.ENVIRONMENT, role="consequence", code="LOG072"),
    Cause(id="native-assertion",
        messages=(r"\.(?:cpp|cc|cxx|c|h|hpp):\d{1,6}: .{0,200}Assertion .{1,200} failed\.",
            r"F\d{4} .{0,120}Check failed: ",
            r"LLVM ERROR: (?!Failed to translate TritonGPU)\w{3}"),
        examples=("python: csrc/aio/py_lib/deepspeed_py_io_handle.cpp:42: int wait(): Assertion "
            "`n_completes >= min_completes' failed.",
            "F1120 12:00:00.000 kernel.cc:12] Check failed: size > 0",
            "LLVM ERROR: Failed to compute parent layout for slice layout."),
        why="Compiled code of the extension or library that the line names found a state that "
            "it does not expect, and ended the process.",
        fix="Search the line in the issues of the library that its path names, and try another "
            "version of it, or the same operation in plain torch.",
        title="No assertion of native code failed", sources=("python-faulthandler",),
        owner=Owner.ENVIRONMENT, code="LOG073"),
    Cause(id="uncaught-exception",
        why="A traceback ended with an exception that is in no class of this table: the log "
            "names the line of code, and the doctor does not know the cause.",
        fix="Read the traceback at the line that is named; the first exception counts, later "
            "ones often follow from it.",
        title="No exception of an unknown class ended a process", sources=("python-exceptions",),
        role="exception", quotes=True, code="LOG040"),
    Cause(id="processor-lacks-instruction",
        refines=("segmentation-fault",),
        messages=(r"Illegal instruction|Signal 4 \(SIGILL\)",),
        examples=("Illegal instruction (core dumped)",),
        why="A library was compiled for a processor with more instructions (AVX2, AVX-512) than "
            "this one or the virtual machine shows.",
        fix="Find the library: python -X faulthandler names the import. Install a build for "
            "this CPU (python -m pip install --no-binary :all: for small packages), an older "
            "release, or let the virtual machine pass the host's CPU through (cpu=host).",
        commands=("lscpu | grep -oE 'avx[^ ]*' | sort -u",),
        owner=Owner.ENVIRONMENT, retry="node"),
)  # fmt: skip
