"""What `make pictures` does: train the toy task, and keep what a person sees of it, for README and the site.

docs/pictures/live-table.svg is the screen of a real terminal in the middle of a run, docs/pictures/report.png the
report of two runs in a browser. Nothing is drawn by hand; only the clock differs from one time to the next.
"""

import argparse
import copy
import fcntl
import io
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

import pyte
from playwright.sync_api import sync_playwright
from rich.color import ColorParseError
from rich.console import Console
from rich.style import Style
from rich.text import Text

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
COLUMNS, LINES = 84, 28
TAKEN = re.compile(r"step 6\d/")  # when the picture of the table is taken
BAR = "━"
LARGEST = 200_000  # bytes of a picture
# pyte's names of colors, where rich has others.
NAMES = {"brown": "yellow", "brightbrown": "bright_yellow"}


def main() -> int:
    """Make the pictures; returns the exit code: 0 done, 1 a run failed or a picture is too large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=PICTURES, help="the directory of the pictures")
    output: Path = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "arithmetic"
        subprocess.run([sys.executable, "-m", "extractor", "new", str(project)], check=True, stdout=subprocess.DEVNULL)
        table = output / "live-table.svg"
        table.write_text(picture_of(train_in_a_terminal(project, "grpo")), encoding="utf-8")
        train_in_a_terminal(project, "rloo")
        photograph_report(project, output / "report.png")
    made = [output / name for name in ("live-table.svg", "report.png")]
    for path in made:
        print(f"{path}  {path.stat().st_size / 1000:.0f} kB")
    return int(any(path.stat().st_size > LARGEST for path in made))


def train_in_a_terminal(project: Path, estimator: str) -> pyte.Screen:
    """Train in a pseudo-terminal; returns its screen at a step of TAKEN, with a bar if there was one.

    Raises:
        SystemExit: the run failed, or its table never showed such a step.
    """
    command = [
        sys.executable,
        "main.py",
        f"algorithm.adv_estimator={estimator}",
        f"trainer.experiment_name={estimator}",
    ]
    screen, kept = pyte.Screen(COLUMNS, LINES), None
    stream = pyte.ByteStream(screen)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    usual = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLORTERM", "COLUMNS", "LINES")
    }
    plain = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "TERM": "xterm-256color"}
    process = subprocess.Popen(command, cwd=project, env={**usual, **plain}, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    while (chunk := _read(master)) is not None:
        stream.feed(chunk)
        # Between two drawings of the table there is a pause: what is read then is whole.
        text = "\n".join(screen.display)
        if TAKEN.search(text) and not _more(master) and (kept is None or BAR in text):
            kept = copy.deepcopy(screen)
    os.close(master)
    if process.wait() != 0 or kept is None:
        raise SystemExit("\n".join(["the run failed, or never showed its table:", *screen.display]))
    return kept


def picture_of(screen: pyte.Screen) -> str:
    """Draw a terminal's screen as SVG, without the empty lines at its end; it names no font that must be fetched."""
    lines = [_styled(screen, row) for row in range(screen.lines)]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    console = Console(record=True, width=screen.columns, file=io.StringIO(), force_terminal=True)
    console.print(Text("\n").join(lines), no_wrap=True, overflow="crop")
    svg = console.export_svg(title="python main.py", unique_id="live-table")
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def photograph_report(project: Path, picture: Path) -> None:
    """Make the report of the project's runs, and a picture of its upper part in a browser."""
    runs = sorted(str(path.parent) for path in project.glob("checkpoints/*/*/metrics.jsonl"))
    page = project / "report.html"
    command = [sys.executable, "-m", "extractor", "report", *runs, "-o", str(page)]
    subprocess.run(command, cwd=project, check=True, stdout=subprocess.DEVNULL)
    browser = os.environ.get("VEXTRACT_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit("there is no Chromium\nhint: apt-get install chromium-headless-shell, or set VEXTRACT_BROWSER")
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser)
        tab = opened.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
        tab.goto(page.as_uri())
        box = tab.locator('figure[data-chart="critic/rewards"] > svg').bounding_box()
        if box is not None:
            tab.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.8 * box["height"])
        tab.screenshot(path=picture)
        opened.close()


def _read(terminal: int) -> bytes | None:
    """Return what a terminal shows next; None once nobody writes to it any more."""
    try:
        return os.read(terminal, 65536) or None
    except OSError:  # how Linux says so
        return None


def _more(terminal: int) -> bool:
    return bool(select.select([terminal], [], [], 0.02)[0])


def _styled(screen: pyte.Screen, row: int) -> Text:
    line = Text(end="")
    for column in range(screen.columns):
        cell = screen.buffer[row][column]
        style = Style(
            color=_color(cell.fg), bgcolor=_color(cell.bg), bold=cell.bold, italic=cell.italics, reverse=cell.reverse
        )
        line.append(cell.data, style)
    line.rstrip()
    return line


def _color(name: str) -> str | None:
    if name == "default":
        return None
    plain = NAMES.get(name, name.replace("bright", "bright_") if name.startswith("bright") else name)
    try:
        Style(color=plain)
    except ColorParseError:
        return f"#{name}"  # six hexadecimal digits
    return plain


if __name__ == "__main__":
    sys.exit(main())
