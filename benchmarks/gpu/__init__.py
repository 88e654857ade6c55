"""Generated projects on one GPU: speed, memory, weights that change hands, and TRL beside them. One list, one table.

`python -m benchmarks gpu` makes a project of each engine that can run here, and measures all cases. On a machine
without vextract or a network, with projects that were made elsewhere (their names: see `projects.NEEDED`):

    python -m benchmarks.gpu PROJECT... [--shape half] [--only step,sleep] [--seconds 500] [--results FILE]

A case takes from half a minute to two: `--prompts`, `--length` and `--steps` make it shorter. `benchmarks.gpu.many` is
the other list: what trains there at all, and whether it computes what a CPU does.
"""


def run() -> bool:
    """Print the figures of every case, for a model of half a billion weights. There is no limit to hold."""
    import tempfile
    from pathlib import Path

    import torch

    if not torch.cuda.is_available():
        print("left out: torch finds no GPU")
        return True
    from benchmarks.gpu import report
    from benchmarks.gpu.projects import NEEDED, runnable
    from benchmarks.gpu.shapes import SHAPES
    from benchmarks.training import make_project

    with tempfile.TemporaryDirectory() as folder:
        projects = [
            make_project(Path(folder) / engine, engine=engine, package=f"bench_{engine}", features=features)
            for engine, features in NEEDED.items()
            if runnable(engine)
        ]
        report.measure(projects, SHAPES["half"])
    return True
