"""What becomes of forks of verl: `python -m benchmarks.adopted CHECKOUT...`, each a checkout of one.

Each becomes a project by itself, and one with each of a few of its launch scripts, all with the engine hf. How far
these come is told as by `benchmarks.launch_scripts`: `trials` starts them and trains them for two steps.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.launch_scripts import request_of, scripts_of, summary, tried, with_variables
from extractor.importers.adopt import Adoption, Outcome, Recognised, adopt, adopt_with_run, recognise
from extractor.importers.adopt.method_states import summarize
from extractor.pipeline.generate import complete
from extractor.usecases.new import write
from extractor.values import releases
from extractor.values.errors import VextractError
from extractor.values.options import Options

ALONE = "(alone)"
PACKAGE = "proj"


def adopted(found: Recognised, script: Path | None, target: Path) -> Adoption:
    """Make a fork's project, with a launch script's run or without.

    Raises:
        VextractError: it cannot be made.
    """
    manifest = releases.load(found.source.release)
    asked = Options(PACKAGE, manifest.release, "hf", "grpo", (), "toy")
    if script is None:
        adoption = adopt(found, complete(asked, manifest), manifest)
    else:

        def make(given: tuple[str, ...]) -> Adoption:
            request = request_of(script, given, keep_unknown=True)
            return adopt_with_run(found, asked, frozenset({"engine"}), request, manifest)

        adoption, _ = with_variables(make)
    write(target, adoption.plan, adoption.generated)
    return adoption


def said(adoption: Adoption) -> str:
    """Say whether the method runs, and what became of the edits."""
    counts = Counter(edit.outcome for edit in adoption.edits if edit.is_symbol)
    symbols = ", ".join(f"{counts[fate]} {fate.value}" for fate in Outcome) + " symbols"
    return f"{summarize(adoption.methods)}; {symbols}"


def outcomes(root: Path, scripts: list[Path], folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each project of a fork, how far it came, and why no further."""
    try:
        found = recognise(root, None)
    except VextractError as error:
        yield ALONE, "refused", error.message
        return
    score = found.score
    print(f"{root.name}: verl {score.release} {score.similarity:.0%}, says {found.copy.says}", flush=True)
    with tried() as attempt:
        for number, script in enumerate([None, *scripts]):
            name = str(script.relative_to(root)) if script is not None else ALONE
            target = folder / f"{root.name}-{number}" / PACKAGE
            try:
                adoption = adopted(found, script, target)
            except VextractError as error:
                yield name, "refused", error.message
                continue
            except Exception as error:
                yield name, "bug", f"{type(error).__name__}: {error}"
                continue
            if script is None:
                print(f"  {said(adoption)}", flush=True)
            what, reason, supplied = attempt(target, True)
            yield name, what, f"{reason}{f' (supplied {chr(44).join(supplied)})' if supplied else ''}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", type=Path, nargs="+")
    parser.add_argument("--take", type=int, default=2, help="at most so many launch scripts of each checkout; 0: none")
    parser.add_argument("--into", type=Path, help="keep the projects here")
    options = parser.parse_args()
    alone: Counter[str] = Counter()
    run: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.into or Path(temporary)
        for root, scripts in scripts_of([path.resolve() for path in options.checkouts], "", options.take, 0):
            for name, what, why in outcomes(root, scripts if options.take else [], folder):
                (alone if name == ALONE else run)[what] += 1
                print(f"  {what:12}  {name}: {' '.join(why.split())[:300]}", flush=True)
    print(f"alone: {summary(alone)}")
    print(f"with a script: {summary(run)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
