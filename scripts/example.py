"""Make generated_example/ anew: a project as `vextract new` writes it, with the vendored files git-ignored."""

import shutil
import subprocess
import sys
from pathlib import Path

from extractor.project import lock as locks
from extractor.values.manifest import VENDORED
from extractor.values.tree import FileKind

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "generated_example"
BEGIN = "# vendored files of the example: `vextract sync generated_example` restores them"
END = "# end of the example's vendored files"


def main() -> int:
    if EXAMPLE.exists():
        shutil.rmtree(EXAMPLE)
    subprocess.run([sys.executable, "-m", "extractor", "new", str(EXAMPLE)], check=True)
    lock = locks.read(EXAMPLE)
    folder = f"{lock.options.package}/{VENDORED}/"
    # The packages in that folder are ours, but for those in which upstream has code.
    ignored = [".vextract/base.zip", f"{folder}**/*.py", f"!{folder}**/__init__.py"]
    ignored += [
        file.path
        for file in lock.files
        if file.kind is FileKind.VENDORED and (not file.path.startswith(folder) or file.path.endswith("/__init__.py"))
    ]
    gitignore = ROOT / ".gitignore"
    text = gitignore.read_text(encoding="utf-8").partition(BEGIN)[0].rstrip("\n")
    gitignore.write_text("\n".join([text, BEGIN, *map(_pattern, ignored), END, ""]), encoding="utf-8")
    # A file that was ours may be verl's now: Git does not ignore what it tracks.
    theirs = [f"{EXAMPLE.name}/{file.path}" for file in lock.files if file.kind is FileKind.VENDORED]
    subprocess.run(["git", "rm", "--quiet", "--cached", "--ignore-unmatch", "--", *theirs], cwd=ROOT, check=True)
    return 0


def _pattern(path: str) -> str:
    sign = "!" * path.startswith("!")
    return f"{sign}/generated_example/{path.removeprefix('!')}"


if __name__ == "__main__":
    sys.exit(main())
