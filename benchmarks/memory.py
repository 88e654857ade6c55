"""How much memory an update takes at a large vocabulary, against TRL: the same model, rows and lengths."""

import statistics

from benchmarks.training import PEERS_PYTHON, RATE, SCRIPTS, a_project, left_out, model_and_data, reported, settings_of

STEPS, PROMPTS, GENERATIONS, LENGTH = 2, 4, 4, 64
ROUNDS = 1  # sizes hardly differ from run to run
MODEL = {"vocab_size": 152_000, "hidden_size": 128, "num_hidden_layers": 2}
LIMIT = 0.9
WHOLE = "local.max_logits_mb=null"


def run() -> bool:
    """Print the peaks; True where the limit holds."""
    if not PEERS_PYTHON.exists():
        return left_out()
    with a_project("logits_in_pieces") as project:
        model, data = model_and_data(project, MODEL)
        numbers = map(str, (STEPS, PROMPTS, GENERATIONS, LENGTH, PROMPTS * GENERATIONS, RATE))
        of_trl = ("trl_memory.py", str(model), str(data), *numbers)
        settings = settings_of(model, data, steps=STEPS, prompts=PROMPTS, generations=GENERATIONS, length=LENGTH)
        runs = {"TRL": of_trl, "ours": ("ours_memory.py", *settings)}
        runs["ours, logits whole"] = (*runs["ours"], WHOLE)
        peaks: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
        for _ in range(ROUNDS):
            for name, (script, *arguments) in runs.items():
                peaks[name].append(reported(project, str(SCRIPTS / script), *arguments))
    print(f"{MODEL['vocab_size']:,} tokens, {PROMPTS * GENERATIONS} responses of {LENGTH} in a pass; resident size.\n")
    print("| | peak of an update | against TRL | limit | peak of the run | against TRL |")
    print("|---|---|---|---|---|---|")
    median = {
        name: {what: statistics.median(peak[what] for peak in found) for what in ("update", "whole")}
        for name, found in peaks.items()
    }
    for name, found in median.items():
        ratios = {what: found[what] / median["TRL"][what] for what in found}
        limit = f"{LIMIT}x" if name == "ours" else ""
        print(
            f"| {name} | {found['update'] / 1e6:,.0f} MB | {ratios['update']:.2f}x | {limit} "
            f"| {found['whole'] / 1e6:,.0f} MB | {ratios['whole']:.2f}x |"
        )
    return median["ours"]["update"] <= LIMIT * median["TRL"]["update"]
