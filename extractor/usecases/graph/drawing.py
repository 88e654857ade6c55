"""The graph of a project as SVG: a card per group with a row per module, laid out by graphlay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from xml.sax.saxutils import escape

from extractor.usecases.graph.matrix import size
from extractor.usecases.graph.modules import FILL, MEANING, Graph, Module
from extractor.values.errors import UsageError
from extractor.values.shell import installing

_CHARACTER = 6.65  # width of a character of an 11 px monospaced font
_ROW = 19
_HEADER = 30
_PADDING = 10
_BAR = 70  # width of the longest bar
_NUMBER = 42
_MARGIN = 24
_TOP = 62
_STYLE = """
  text { font: 11px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2733 }
  .title { font: 600 16px system-ui, "Helvetica Neue", "DejaVu Sans", sans-serif }
  .group { font: 600 13px system-ui, "Helvetica Neue", "DejaVu Sans", sans-serif }
  .note { font: 11px system-ui, "Helvetica Neue", "DejaVu Sans", sans-serif; fill: #5b6675 }
  .lines { text-anchor: end; fill: #3d4756 }
  .card { fill: #ffffff; stroke: #aab4c2 }
  .edge, .inner { fill: none; stroke: #41506a }
  .edge:hover { stroke: #d2441b }
  .ours { stroke: #b9c1cd }
  .inner { stroke-width: 1; stroke: #7d8aa0 }
""".strip("\n")


_Import: TypeAlias = tuple[Module, Module]


@dataclass(frozen=True)
class _Card:
    """A group as a box: its rows, and how wide the room for the arcs between them is."""

    group: str
    rows: tuple[Module, ...]
    arcs: float
    width: float
    height: float


def draw(graph: Graph) -> str:
    """Return the SVG; equal graphs give equal bytes.

    Raises:
        UsageError: graphlay, which lays the picture out, is not installed.
    """
    cards = [_card(graph, group) for group in graph.groups]
    between = graph.between()
    layout = _layout(cards, between)
    place = layout.positions()
    left, top = layout.bounds["min"]["x"] - _MARGIN, layout.bounds["min"]["y"] - _TOP - _MARGIN
    width = layout.bounds["max"]["x"] + _MARGIN - left
    height = layout.bounds["max"]["y"] + _MARGIN - top
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="{left:.1f} {top:.1f} {width:.1f} {height:.1f}">',
        f"<style>\n{_STYLE}\n</style>",
        *_marker(),
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="#f6f8fb"/>',
        *_legend(graph, left + _MARGIN, top + _MARGIN),
    ]
    drawn = list(zip(sorted(between.items()), layout.edges, strict=True))
    # Ours first, so that the lines between upstream's own modules lie above them.
    for (pair, imports), edge in sorted(drawn, key=lambda item: not _is_ours(item[0][1])):
        lines += _edge(edge["points"], pair, imports)
    longest = max((module.lines for module in graph.modules), default=1)
    for card in cards:
        x, y = place[card.group]
        lines += _draw_card(card, x - card.width / 2, y - card.height / 2, longest)
    return "\n".join([*lines, "</svg>", ""])


def _layout(cards: Sequence[_Card], between: Mapping[tuple[str, str], list[_Import]]) -> Any:
    try:
        import graphlay
    except ImportError:
        raise UsageError(
            "the picture needs graphlay, which is not installed", hint=installing("graphlay>=0.3,<0.4")
        ) from None
    boxes = graphlay.Graph()
    for card in cards:
        boxes.node(card.group, label=card.group, width=card.width, height=card.height)
    for (importer, imported), imports in sorted(between.items()):
        boxes.edge(importer, imported, weight=float(len(imports)), thickness=_thickness(len(imports)))
    spacing = {"layer_gap": 44.0, "node_gap": 28.0}
    return graphlay.layout(boxes, preset="layered", options={"direction": "leftright", "spacing": spacing})


def _is_ours(imports: list[_Import]) -> bool:
    """Return True where no module of upstream's is among those that import."""
    return not any(importer.kind == "vendored" for importer, _ in imports)


def _card(graph: Graph, group: str) -> _Card:
    rows = _in_order(graph.of(group))
    arcs = 8.0 + 5.0 * max((high - low for low, high in _inner(rows)), default=0) ** 0.8
    name = max(len(_label(row)) for row in rows) * _CHARACTER
    width = max(arcs + name + _BAR + _NUMBER + 20, len(group) * 9 + 130) + 2 * _PADDING
    return _Card(group, rows, arcs, round(width, 1), _HEADER + _ROW * len(rows) + _PADDING)


def _in_order(modules: tuple[Module, ...]) -> tuple[Module, ...]:
    """Order importing modules above imported ones, as far as they import each other in no circle."""
    paths = {module.path for module in modules}
    depth = dict.fromkeys(paths, 0)
    for _ in modules:
        for module in modules:
            for target in module.imports:
                if target in paths and depth[target] <= depth[module.path] < len(modules):
                    depth[target] = depth[module.path] + 1
    return tuple(sorted(modules, key=lambda module: (depth[module.path], module.path)))


def _inner(rows: tuple[Module, ...]) -> Iterator[tuple[int, int]]:
    """Yield the imports inside a card, as pairs of row numbers, the smaller first."""
    number = {row.path: index for index, row in enumerate(rows)}
    for index, row in enumerate(rows):
        for target in row.imports:
            if target in number:
                yield min(index, number[target]), max(index, number[target])


def _draw_card(card: _Card, x: float, y: float, longest: int) -> Iterator[str]:
    lines = sum(row.lines for row in card.rows)
    right = x + card.width - _PADDING
    yield f'<rect class="card" x="{x:.1f}" y="{y:.1f}" width="{card.width:.1f}" height="{card.height:.1f}" rx="6"/>'
    yield f'<text class="group" x="{x + _PADDING:.1f}" y="{y + 20:.1f}">{escape(_title(card.group))}</text>'
    yield f'<text class="note lines" x="{right:.1f}" y="{y + 20:.1f}">{size(len(card.rows), lines)}</text>'
    start = x + _PADDING + card.arcs
    middle = [y + _HEADER + _ROW * index + _ROW / 2 for index in range(len(card.rows))]
    number = {row.path: index for index, row in enumerate(card.rows)}
    for index, row in enumerate(card.rows):
        for target in row.imports:
            if target in number:
                yield _arc(start - 3, middle[index], middle[number[target]], abs(index - number[target]))
    for row, centre in zip(card.rows, middle, strict=True):
        bar = max(2.0, _BAR * row.lines / longest)
        yield f"<g><title>{escape(_tooltip(row))}</title>"
        yield (
            f'<rect x="{right - _NUMBER - bar:.1f}" y="{centre - 7.5:.1f}" width="{bar:.1f}" height="15" rx="2"'
            f' fill="{FILL[row.kind]}"/>'
        )
        yield f'<rect x="{start:.1f}" y="{centre - 5:.1f}" width="4" height="10" rx="1" fill="{FILL[row.kind]}"/>'
        yield f'<text x="{start + 9:.1f}" y="{centre + 4:.1f}">{escape(_label(row))}</text>'
        yield f'<text class="lines" x="{right:.1f}" y="{centre + 4:.1f}">{row.lines:,}</text></g>'


def _arc(x: float, start: float, end: float, rows: int) -> str:
    reach = x - 5.0 * rows**0.8 - 4
    return (
        f'<path class="inner" marker-end="url(#inner)" d="M{x:.1f} {start:.1f} C{reach:.1f} {start:.1f}'
        f' {reach:.1f} {end:.1f} {x:.1f} {end:.1f}"/>'
    )


def _edge(points: list[dict[str, float]], pair: tuple[str, str], imports: list[_Import]) -> Iterator[str]:
    ours = _is_ours(imports)
    path = " ".join(f"{'L' if index else 'M'}{point['x']:.1f} {point['y']:.1f}" for index, point in enumerate(points))
    marker = "ours" if ours else "edge"
    yield (
        f'<path class="edge{" ours" if ours else ""}" stroke-width="{_thickness(len(imports)):.1f}"'
        f' stroke-linejoin="round" marker-end="url(#{marker})" d="{path}">'
    )
    told = "\n".join(f"{_label(importer)} imports {_label(imported)}" for importer, imported in imports)
    yield f"<title>{escape(f'{_title(pair[0])} -> {_title(pair[1])}')}\n{escape(told)}</title></path>"


def _thickness(imports: int) -> float:
    return min(1.2 + 0.3 * (imports - 1), 4.0)


def _marker() -> Iterator[str]:
    yield "<defs>"
    for name, colour, wide in (("edge", "#41506a", 7), ("ours", "#b9c1cd", 7), ("inner", "#7d8aa0", 5)):
        yield (
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="{wide}" markerHeight="{wide}"'
            f' markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.5 L8 4 L0 7.5 z" fill="{colour}"/></marker>'
        )
    yield "</defs>"


def _legend(graph: Graph, x: float, y: float) -> Iterator[str]:
    yield f'<text class="title" x="{x:.1f}" y="{y + 12:.1f}">{escape(graph.title)}</text>'
    kinds = Counter(module.kind for module in graph.modules)
    for kind, meaning in MEANING.items():
        if kinds[kind]:
            text = f"{meaning}: {size(*graph.size(kind))}"
            yield f'<rect x="{x:.1f}" y="{y + 25:.1f}" width="12" height="12" rx="2" fill="{FILL[kind]}"/>'
            yield f'<text class="note" x="{x + 18:.1f}" y="{y + 35:.1f}">{escape(text)}</text>'
            x += 44 + 6.1 * len(text)
    told = "A -> B: A imports B; the thicker, the more imports"
    yield f'<text class="note" x="{x:.1f}" y="{y + 35:.1f}">{escape(told)}</text>'


def _title(group: str) -> str:
    return group.replace("_", " ")


def _label(module: Module) -> str:
    return module.name.removesuffix(".py") + (" (edited)" if module.edited else "")


def _tooltip(module: Module) -> str:
    origin = f"\nfrom {module.upstream_path}" if module.upstream_path else ""
    return f"{module.path}: {module.kind}, {module.lines:,} lines{origin}"
