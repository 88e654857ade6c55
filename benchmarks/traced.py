"""Run a project's main.py and write down which lines of files it executes: RESULT FILE... -- ARGUMENTS."""

import atexit
import json
import runpy
import sys
import threading
from pathlib import Path

from extractor.usecases.verify.driver.run import LineTrace


def main() -> None:
    """Run it; the result is JSON, file -> lines."""
    end = sys.argv.index("--")
    result, files, arguments = sys.argv[1], sys.argv[2:end], sys.argv[end + 1 :]
    trace = LineTrace(files)

    def write() -> None:
        Path(result).write_text(json.dumps({file: sorted(lines) for file, lines in trace.lines.items()}))

    atexit.register(write)
    sys.argv = ["main.py", *arguments]
    sys.path.insert(0, str(Path.cwd()))
    threading.settrace(trace.call)
    trace.start()
    sys.gettrace = lambda: None  # a project draws no table under a debugger
    runpy.run_path(str(Path("main.py").resolve()), run_name="__main__")


if __name__ == "__main__":
    main()
