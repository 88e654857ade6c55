"""The types of an explanation."""

from dataclasses import dataclass

from extractor.pipeline.slicer import Edge


@dataclass(frozen=True)
class Explanation:
    """Holds what is known about one symbol or file.

    Attributes:
        subject: The symbol ("verl.protocol:DataProto", "toy.training.trainer:LocalPPOTrainer") or the file.
        path: The file in the project that holds it.
        whose: Who writes that file, and what may be done with it.
        upstream_path: The file of verl that it comes from; empty where it is none of verl's.
        release: That file's release of verl; empty where it is none of verl's.
        upstream_sha256: That file's digest; empty where nothing was made of it.
        templates: The templates of that path in this project, as paths below templates/: it is made from the last one,
            which takes the place of those before it. Empty for a file of verl's.
        chain: The edges from the subject back to its root; for a file that of its first symbol.
        symbols: For a file: its symbols, in the order in which they stand there.
        changes: What the rewrite did to the file.
        fixes: Named fixes in the file, as "id: why".
        note: What else there is to say: ours instead of upstream's, a stub, an effect that was kept, an edit.
    """

    subject: str
    path: str
    whose: str
    upstream_path: str = ""
    release: str = ""
    upstream_sha256: str = ""
    templates: tuple[str, ...] = ()
    chain: tuple[Edge, ...] = ()
    symbols: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    note: str = ""

    def lines(self) -> list[str]:
        """Return it as text."""
        lines = [self.subject]
        if self.path != self.subject:
            lines.append(f"  in       {self.path}")
        lines.append(f"  whose    {self.whose}")
        if self.upstream_path:
            digest = f", sha256 of that file {self.upstream_sha256}" if self.upstream_sha256 else ""
            lines += [f"  from     {self.upstream_path}", f"  release  verl {self.release}{digest}"]
        templates = [f"templates/{path}" for path in reversed(self.templates)]
        blocks = {
            "from": templates[:1],
            "over": templates[1:],
            "why": [_describe(edge) for edge in self.chain],
            "note": self.note.splitlines(),
            "fixes": self.fixes,
            "changed": self.changes,
            "holds": self.symbols,
        }
        for label, block in blocks.items():
            lines += [f"  {label if number == 0 else '':8} {line}" for number, line in enumerate(block)]
        return lines


def _describe(edge: Edge) -> str:
    if edge.how == "root":
        return f"{edge.symbol} is a root ({edge.origin})"
    return f"{edge.symbol} <- {edge.origin} {edge.how} it{f' (line {edge.line})' if edge.line else ''}"


VENDORED = "verl's: you may edit it, an upgrade merges your edits"
COPIED = "verl's, copied as it is"
TEMPLATE = "ours, from a template: you may edit it, an upgrade merges your edits"
HOOK = "yours, from a template: written once, never touched again"
OWNER = "yours: no command of vextract writes it"
RECORD = "vextract's record of the project: commit it, do not edit it"
