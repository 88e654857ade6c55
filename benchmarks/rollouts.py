"""How long engine hf takes to write responses, against upstream's rollout and TRL's, and by their length."""

import tempfile
from pathlib import Path

from benchmarks import training

LIMIT_TRL = 0.8
LIMIT_UPSTREAM = 1 / 1.5


def run() -> bool:
    """Print the ratios; True where the limits hold at the longest responses."""
    if not training.PEERS_PYTHON.exists():
        print(f"left out: {training.PEERS_PYTHON.parents[1].name} is missing (`make bench` makes it)")
        return True
    with tempfile.TemporaryDirectory() as folder:
        project = training.make_project(Path(folder) / "bench")
        model, _ = training.model_and_data(project)
        measured = training.reported(project, str(training.SCRIPTS / "rollouts.py"), str(model))
    print("32 responses to 4 prompts, one thread, seconds of the processor, the median of three rounds in turn.\n")
    print("| model | tokens | ours against upstream's | limit | against TRL's | limit | against half as many |")
    print("|---|---|---|---|---|---|---|")
    ok = True
    for shape, lengths in measured.items():
        before: float | None = None
        for length, seconds in lengths.items():
            upstream, trl = (seconds["ours"] / seconds[name] for name in ("upstream", "TRL"))
            growth = "-" if before is None else f"{seconds['ours'] / before:.2f}x"
            before = seconds["ours"]
            is_judged = length == max(lengths, key=int)
            limits = (f"{LIMIT_UPSTREAM:.2f}x", f"{LIMIT_TRL}x") if is_judged else ("-", "-")
            ok = ok and not (is_judged and (upstream > LIMIT_UPSTREAM or trl > LIMIT_TRL))
            print(f"| {shape} | {length} | {upstream:.2f}x | {limits[0]} | {trl:.2f}x | {limits[1]} | {growth} |")
    return ok
