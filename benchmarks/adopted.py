"""What becomes of forks of verl: `python -m benchmarks.adopted CHECKOUT...`, each a checkout of one.

Each becomes a project by itself, and one with each of a few of its launch scripts, all with the engine hf. How far
these come is told as by `benchmarks.launch_scripts`: `trials` starts them and trains them for two steps.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.environment import on_one_thread
from benchmarks.launch_scripts import ASKED, ROOT, made_up, scripts_of, summary
from extractor.cli.adopt import write
from extractor.usecases.adopt import Adoption, Outcome, Recognised, adopt, adopt_with_run, recognise
from extractor.usecases.fromrun.carry_over import Request
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
    from extractor.pipeline.generate import complete

    manifest = releases.load(found.source.release)
    asked = Options(PACKAGE, manifest.release, "hf", "grpo", (), "toy")
    if script is None:
        adoption = adopt(found, complete(asked, manifest), manifest)
        write(target, adoption, found)
        return adoption
    given: tuple[str, ...] = ()
    for last in (*[False] * 4, True):
        try:
            request = Request(script, given, (script.parent, script.parent / "config"), keep_unknown=True)
            adoption = adopt_with_run(found, asked, frozenset({"engine"}), request, manifest)
            break
        except VextractError as error:
            more = tuple(f"{name}={made_up(name)}" for name in ASKED.findall(error.hint or ""))
            if last or not set(more) - set(given):
                raise
            given = (*given, *more)
    write(target, adoption, found)
    return adoption


def said(adoption: Adoption) -> str:
    """Say what became of the edits."""
    counts = Counter(edit.outcome for edit in adoption.edits if edit.is_symbol)
    return ", ".join(f"{counts[fate]} {fate.value}" for fate in Outcome) + " symbols"


def outcomes(root: Path, scripts: list[Path], folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each project of a fork, how far it came, and why no further."""
    try:
        found = recognise(root, None)
    except VextractError as error:
        yield ALONE, "refused", error.message
        return
    score = found.score
    print(f"{root.name}: verl {score.release} {score.similarity:.0%}, says {found.copy.says}", flush=True)
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.trials"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=on_one_thread(),
        cwd=ROOT,
    ) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
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
                why = Counter(edit.why for edit in adoption.edits if edit.outcome is Outcome.ORPHANED)
                (target.parent / "why.txt").write_text(
                    "\n".join(f"{count} {text}" for text, count in why.most_common()), encoding="utf-8"
                )
            driver.stdin.write(f"{json.dumps([str(target), True])}\n")
            driver.stdin.flush()
            what, reason, supplied = json.loads(driver.stdout.readline())
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
