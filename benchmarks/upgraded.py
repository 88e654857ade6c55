"""What becomes of projects when they are upgraded: `python -m benchmarks.upgraded PROJECT...`.

Each is a directory of a project, such as `benchmarks.adopted --into` and `benchmarks.launch_scripts --into` leave, with
the edits of a fork of verl in it. A copy of it is taken to another release, straight or release by release, and
both are trained for two steps as `benchmarks.trials` does it. What has conflicts is for a person and is not trained.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.launch_scripts import tried
from extractor.pipeline.plan import Plan, Verdict
from extractor.project import lock
from extractor.usecases.upgrade import prepare, write
from extractor.usecases.upgrade.choices import UpgradeRequest
from extractor.values import releases
from extractor.values.errors import VextractError

NOTHING_TO_DO = "is there already"


def upgraded(project: Path, wanted: str, stepwise: bool) -> tuple[Counter[str], list[str]]:
    """Take a project to another release.

    Args:
        project: Its directory, which is written.
        wanted: The release.
        stepwise: Over each release that lies between.

    Returns:
        How many files have which verdict, and what asks for a person; it stops at the first release where that is so.

    Raises:
        VextractError: an upgrade is refused.
    """
    counts: Counter[str] = Counter()
    for release in _way(lock.read(project).options.verl, wanted, stepwise):
        found = prepare(project, UpgradeRequest(release, None, None, (), ()))
        counts += Counter(action.verdict.value for action in found.plan.actions)
        write(project, found)
        if told := _conflicts(found.plan):
            return counts, [f"{found.title}: {text}" for text in told]
    return counts, []


def _way(present: str, wanted: str, stepwise: bool) -> tuple[str, ...]:
    known = releases.list_supported()
    between = known[known.index(present) + 1 : known.index(wanted) + 1]
    return between if stepwise else between[-1:]


def _conflicts(plan: Plan) -> list[str]:
    return [
        f"{action.path} ({action.reason.value}{f'; {action.note}' if action.note else ''})"
        for action in plan.actions
        if action.verdict is Verdict.CONFLICT
    ]


def copied(project: Path, into: Path) -> Path:
    """Copy a project, without what was written when it was tried."""
    target = into / project.name
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(project, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "outputs"))
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("projects", type=Path, nargs="+")
    parser.add_argument("--to", default=releases.find_default(), help="the release")
    parser.add_argument("--stepwise", action="store_true", help="over each release that lies between")
    parser.add_argument("--into", type=Path, help="keep the projects here")
    options = parser.parse_args()
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary, tried() as attempt:
        folder = options.into or Path(temporary)
        for project in options.projects:
            name, present = project.parent.name, lock.read(project).options.verl
            if not _way(present, options.to, stepwise=False):
                print(f"{NOTHING_TO_DO:12}  {name}: {present}", flush=True)
                continue
            before, why_before, _ = attempt(copied(project.resolve(), folder / name / "before"), True)
            target = copied(project.resolve(), folder / name / "after")
            try:
                counts, conflicts = upgraded(target, options.to, options.stepwise)
            except VextractError as error:
                what, told = "refused", error.message
            except Exception as error:
                what, told = "bug", f"{type(error).__name__}: {error}"
            else:
                what, told, supplied = "conflict", f"{len(conflicts)}: {'; '.join(conflicts)}", []
                if not conflicts:
                    what, told, supplied = attempt(target, True)
                verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
                print(f"  {verdicts}{f' (supplied {chr(44).join(supplied)})' if supplied else ''}", flush=True)
            total[f"{before} -> {what}"] += 1
            print(f"{before} -> {what:10}  {name}, from {present}: {' '.join(told.split())[:900]}", flush=True)
            if why_before:
                print(f"  before: {' '.join(why_before.split())[:200]}", flush=True)
    for kind, count in total.most_common():
        print(f"{count:6}  {kind}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
