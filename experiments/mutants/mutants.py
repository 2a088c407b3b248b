"""Seeds mistakes in package measure, one at a time, and says which of them its tests find.

    python3 experiments/mutants/mutants.py [PATTERN]

It works on a clone of the last commit, in a folder of its own that it removes. PATTERN chooses mutants by their file.
A mutant that no test finds is a line that no test needs: write the test, or delete the line.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# File below measure, the text that is replaced, which stands there once, and what replaces it.
MUTANTS = [
    ("closure.go", "off := parts/whole - 1", "off := whole/parts - 1"),
    ("closure.go", "Passed: off <= limit && off >= -limit", "Passed: off <= limit"),
    ("closure.go", "n := float64(r.Workload.GenLen - 1)\n\tr.Closure", "n := float64(r.Workload.GenLen)\n\tr.Closure"),
    ("closure.go", "d.MeanW > (1+powerExcess)*(*c.PowerLimitW)", "d.MeanW > (2+powerExcess)*(*c.PowerLimitW)"),
    ("conclude.go", "rates.Decode = new(batch / r.TPOT.Median)", "rates.Decode = new(1 / r.TPOT.Median)"),
    ("conclude.go", "if !run.steady && s.set.Warmup == steady {", "if run.steady && s.set.Warmup == steady {"),
    ("conditions.go", "if held {\n\t\tleast = leastHeldClock", "if !held {\n\t\tleast = leastHeldClock"),
    ("energy.go", "token = new(joules(w) / w.Steps / batch)", "token = new(joules(w) / w.Passes / batch)"),
    ("energy.go", "return (meanPower(w) - idle) * w.Seconds", "return (meanPower(w) + idle) * w.Seconds"),
    ("energy.go", "if gpus > 0 {\n\t\treturn gpus", "if gpus > 0 {\n\t\treturn all"),
    ("passes.go", "float64(len(d)), true", "float64(len(p.Steps)), true"),
    ("passes.go", "return float64(overlap) / float64(end-start)", "return 1"),
    ("steady.go", "return *sum.CV <= steadyCV || n > 2", "return n > 2"),
    ("phase.go", "w.passes, w.quiet, w.begun, w.stage = w.all[w.from:]", "w.passes, w.quiet, w.begun, w.stage = w.all"),
    ("group.go", "return g.done[p] >= g.size", "return g.done[p] > 0"),
    ("sizes.go", "Params: n * float64(want.Weights)", "Params: float64(want.Weights)"),
    ("serve_result.go", "if share <= allowed {", "if share < allowed {"),
    ("listener.go", 'f[3] != "0A"', 'f[3] == "0A"'),
    ("calibrate/fit.go", "slope = -slope", "slope = +slope"),
    ("calibrate/fit.go", "stats.Percentile(seen[k], 97.5) -", "stats.Percentile(seen[k], 50) -"),
    ("calibrate/fit.go", "if i%folds == fold {", "if i%folds != fold {"),
    ("calibrate/fit.go", "!f.held[k] && f.n[k] < least &&", "!f.held[k] && f.n[k] < 0 &&"),
    ("calibrate/governor.go", "return share*time + (1-share)*slower", "return time"),
    ("calibrate/constants.go", "!r.Cold && r.Bytes < float64(b.gpu.L2)", "r.Bytes < float64(b.gpu.L2)"),
    ("calibrate/power.go", "slopes[0] *= 1 - 1/d.fall", "slopes[0] *= 1"),
    ("calibrate/served_predict.go", "return n >= least, nil", "return true, nil"),
    ("calibrate/served_predict.go", "if float64(floor) <= p.Seconds {", "if true {"),
    ("calibrate/lines.go", "torn = len(line)", "torn = 0"),
    ("openai/collector.go", "float64(*r.Generated-first)", "float64(*r.Generated-first+1)"),
    ("openai/collector.go", "c.silent = 0", "c.silent++"),
    ("openai/client.go", 'next.Header.Del("Authorization")', 'next.Header.Del("Accept")'),
    ("openai/chunk.go", "l.finished = l.finished || !ch.Finish.empty()", "l.finished = l.finished || ch.Finish.empty()"),
    ("openai/first.go", "*r.Generated-r.Chunks+1", "*r.Generated-r.Chunks"),
    ("openai/objectives.go", "all = append(all, math.Inf(1))", "all = append(all, 0)"),
    ("openai/metrics.go", "rise >= 0", "true"),
    ("openai/count.go", "if n > got && n <= tokens {", "if n > got {"),
    ("experiment/plan.go", "if err != nil || seen[hash] {", "if err != nil {"),
    ("experiment/lock.go", 'if owner := ownerOf(f); owner != "" {', 'if owner := ownerOf(f); owner == "" {'),
    ("experiment/contents.go", "if again.Contents[s.key] != p.Contents[s.key] {", "if false {"),
]


def tests(clone: pathlib.Path, file: str) -> bool:
    """Whether the tests of the file's package, and of the packages that test it, pass."""
    package = "./measure/" + str(pathlib.PurePath(file).parent)
    run = subprocess.run(["go", "test", "-trimpath", "-count=1", "-timeout=3m", package], cwd=clone, capture_output=True, text=True)
    if "[build failed]" in run.stdout:
        raise SystemExit(f"{file}: the mutant does not compile: {run.stderr}")
    return run.returncode == 0


def main() -> int:
    root = pathlib.Path(__file__).resolve().parents[2]
    pattern = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    survived = 0
    chosen = [m for m in MUTANTS if pattern.search(m[0])]
    with tempfile.TemporaryDirectory() as folder:
        clone = pathlib.Path(folder) / "clone"
        subprocess.run(["git", "clone", "-q", str(root), str(clone)], check=True)
        for file, old, new in chosen:
            path = clone / "measure" / file
            text = path.read_text()
            if text.count(old) != 1:
                print(f"{file}: {old!r} stands there {text.count(old)} times", flush=True)
                return 2
            path.write_text(text.replace(old, new))
            alive = tests(clone, file)
            path.write_text(text)
            survived += alive
            print(f"{'SURVIVED' if alive else 'killed  '} {file}: {' '.join(new.split())}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} mutants are killed")
    return survived > 0


if __name__ == "__main__":
    sys.exit(main())
