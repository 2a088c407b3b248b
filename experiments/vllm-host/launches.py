"""A plugin of vLLM that writes, for each step of the engine, what its host takes to launch it.

$LLMPROF_LAUNCHES gets a line a step: [time, seconds of execute_model, seconds of sample_tokens, sequences, tokens, new sequences].
`python3 launches.py FOLDER` makes FOLDER a place of the plugin, for PYTHONPATH.
"""
import os
import pathlib
import shutil
import sys
import time


def hook():
    from vllm.v1.executor.uniproc_executor import UniProcExecutor
    if hasattr(UniProcExecutor, "llmprof_launches") or not os.environ.get("LLMPROF_LAUNCHES"):
        return
    execute, sample, log = UniProcExecutor.execute_model, UniProcExecutor.sample_tokens, []

    def launched(self, out, *a, **k):
        t = time.time()
        got = execute(self, out, *a, **k)
        if out.num_scheduled_tokens:
            write(log, t)
            log.append([t, time.time() - t, 0, len(out.num_scheduled_tokens), out.total_num_scheduled_tokens, len(out.scheduled_new_reqs)])
        return got

    def sampled(self, *a, **k):
        t = time.time()
        got = sample(self, *a, **k)
        if log:
            log[-1][2] = time.time() - t
        return got

    UniProcExecutor.execute_model, UniProcExecutor.sample_tokens, UniProcExecutor.llmprof_launches = launched, sampled, True


def write(log, now):
    """Write what is logged after a pause, or once it is long, so that few steps pay for it."""
    if log and (now - log[-1][0] > 0.05 or len(log) > 1000):
        with open(os.environ["LLMPROF_LAUNCHES"], "a") as f:
            f.writelines("[%.6f,%.6f,%.6f,%d,%d,%d]\n" % tuple(row) for row in log)
        log.clear()


def install(folder):
    info = pathlib.Path(folder) / "llmprof_launches-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llmprof-launches\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nllmprof = launches:hook\n")
    shutil.copy(__file__, pathlib.Path(folder) / "launches.py")


if __name__ == "__main__":
    install(sys.argv[1])
