"""The groups of a project as SVG: one row each, with its size and what it imports from every other group.

A dozen groups import each other along some fifty ways, in circles: as lines between boxes nobody can follow them, as a
table everybody can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from xml.sax.saxutils import escape

from extractor.usecases.graph.modules import FILL, MEANING, Graph, Module

_MARGIN = 28
_NAME = 330  # room for a group's name and its largest modules
_BAR = 210
_SIZE = 118
_CELL = 46
_TOP = 176
_LARGEST = 3
_CHARACTERS = 52
_STYLE = """
  text { font: 12px system-ui, "Helvetica Neue", "DejaVu Sans", sans-serif; fill: #1f2733 }
  .title { font-size: 20px; font-weight: 600 }
  .group { font-size: 15px; font-weight: 600 }
  .note { fill: #5b6675 }
  .size { text-anchor: end; fill: #3d4756 }
  .count { text-anchor: middle; font-weight: 600; fill: #ffffff }
  .inner { text-anchor: middle; fill: #7d8794 }
""".strip("\n")


def draw_groups(graph: Graph) -> str:
    """Return the SVG; equal graphs give equal bytes."""
    groups = graph.groups
    left = _MARGIN + _NAME + _BAR + _SIZE
    width = left + _CELL * len(groups) + _MARGIN + 60
    height = _TOP + _CELL * len(groups) + 2 * _MARGIN
    between = graph.between()
    most = max(map(len, between.values()), default=1)
    longest = max((sum(module.lines for module in graph.of(group)) for group in groups), default=1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>\n{_STYLE}\n</style>",
        f'<rect width="{width}" height="{height}" fill="#f6f8fb"/>',
        *_legend(graph),
    ]
    for column, group in enumerate(groups):
        x = left + _CELL * column + _CELL / 2
        turned = f"translate({x + 4:.1f} {_TOP - 10}) rotate(-40)"
        lines.append(f'<text class="group" transform="{turned}">{escape(_title(group))}</text>')
    for row, group in enumerate(groups):
        y = _TOP + _CELL * row
        lines += _row(graph, group, y, longest, width)
        for column, other in enumerate(groups):
            x = left + _CELL * column
            if column == row:
                lines += _inner(graph.of(group), x, y)
            elif (group, other) in between:
                lines += _cell(group, other, between[group, other], x, y, most)
    told = "A row imports from the columns in which it has a number: how many. Blue: verl's code does, grey: ours does."
    lines.append(f'<text class="note" x="{_MARGIN}" y="{height - _MARGIN + 4}">{told}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _legend(graph: Graph) -> Iterator[str]:
    yield f'<text class="title" x="{_MARGIN}" y="{_MARGIN + 16}">{escape(graph.title)}</text>'
    y = _MARGIN + 36
    for kind, meaning in MEANING.items():
        files, lines = graph.size(kind)
        if files:
            yield f'<rect x="{_MARGIN}" y="{y}" width="13" height="13" rx="2" fill="{FILL[kind]}"/>'
            yield f'<text class="note" x="{_MARGIN + 20}" y="{y + 11}">{escape(meaning)}: {size(files, lines)}</text>'
            y += 20


def _row(graph: Graph, group: str, y: float, longest: int, width: float) -> Iterator[str]:
    modules = graph.of(group)
    total = sum(module.lines for module in modules)
    yield f'<g class="row"><line x1="{_MARGIN}" y1="{y}" x2="{width - _MARGIN}" y2="{y}" stroke="#dbe1e9"/>'
    yield f'<text class="group" x="{_MARGIN}" y="{y + 19}">{escape(_title(group))}</text>'
    yield f'<text class="note" x="{_MARGIN}" y="{y + 36}">{escape(_largest(modules))}</text>'
    x = float(_MARGIN + _NAME)
    kinds: Counter[str] = Counter()
    for module in modules:
        kinds[module.kind] += module.lines
    for kind in MEANING:
        if kinds[kind]:
            long = max(_BAR * kinds[kind] / longest, 1.5)
            yield f'<rect x="{x:.1f}" y="{y + 14}" width="{long:.1f}" height="18" fill="{FILL[kind]}"/>'
            x += long
    right = _MARGIN + _NAME + _BAR + _SIZE - 14
    yield f'<text class="size" x="{right}" y="{y + 20}">{total:,} lines</text>'
    files = f"{len(modules)} file{'' if len(modules) == 1 else 's'}"
    yield f'<text class="size note" x="{right}" y="{y + 36}">{files}</text></g>'


def _largest(modules: tuple[Module, ...]) -> str:
    """Return the largest modules by name, as many as fit."""
    names = [module.name.removesuffix(".py").removesuffix("/__init__") for module in sorted(modules, key=_by_size)]
    told: list[str] = []
    for name in (name.rpartition("/")[2] for name in names[:_LARGEST]):
        if len(", ".join([*told, name, "..."])) <= _CHARACTERS:
            told.append(name)
    return ", ".join([*told, *(["..."] if len(told) < len(modules) else [])])


def _by_size(module: Module) -> tuple[int, str]:
    return -module.lines, module.path


def _cell(group: str, other: str, imports: list[tuple[Module, Module]], x: float, y: float, most: int) -> Iterator[str]:
    radius = 9 + 12 * (len(imports) / most) ** 0.5
    fill = "#3b6fb5" if any(importer.kind == "vendored" for importer, _ in imports) else "#8b95a5"
    told = "\n".join(f"{importer.name} imports {imported.name}" for importer, imported in imports)
    yield f"<g><title>{escape(f'{_title(group)} imports {_title(other)}')}\n{escape(told)}</title>"
    yield (
        f'<circle class="cell" cx="{x + _CELL / 2:.1f}" cy="{y + _CELL / 2:.1f}" r="{radius:.1f}" fill="{fill}"/>'
        f'<text class="count" x="{x + _CELL / 2:.1f}" y="{y + _CELL / 2 + 4:.1f}">{len(imports)}</text></g>'
    )


def _inner(modules: tuple[Module, ...], x: float, y: float) -> Iterator[str]:
    paths = {module.path for module in modules}
    inside = sum(target in paths for module in modules for target in module.imports)
    yield f'<rect x="{x + 1}" y="{y + 1}" width="{_CELL - 2}" height="{_CELL - 2}" fill="#e9edf3"/>'
    if inside:
        yield f'<text class="inner" x="{x + _CELL / 2:.1f}" y="{y + _CELL / 2 + 4:.1f}">{inside}</text>'


def size(files: int, lines: int) -> str:
    """Write "2 files, 120 lines"."""
    return f"{files} {'file' if files == 1 else 'files'}, {lines:,} lines"


def _title(group: str) -> str:
    return group.replace("_", " ")
