"""Make generated_example/ anew: a project as `vextract new` writes it, with the vendored files git-ignored."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from extractor.project import lock as locks
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
    ignored = [f"/generated_example/{file.path}" for file in lock.files if file.kind is FileKind.VENDORED]
    ignored.append("/generated_example/.vextract/base.zip")
    gitignore = ROOT / ".gitignore"
    text = gitignore.read_text(encoding="utf-8").partition(BEGIN)[0].rstrip("\n")
    gitignore.write_text("\n".join([text, BEGIN, *sorted(ignored), END, ""]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
