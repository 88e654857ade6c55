"""Write the table of algorithms from the manifests and the presets, or check it: `--check`."""

import sys
from pathlib import Path

import yaml

from extractor.values import releases, resources

PAGE = Path(__file__).resolve().parents[1] / "docs/algorithms.md"
BEGIN, END = "<!-- algorithms: written by scripts/algorithms.py -->", "<!-- end of algorithms -->"
# What people look for and no release here has, and why.
MISSING = {
    "`optimal_token_baseline` with 0.7.1": "upstream has it from there on, and in that release it does not run",
}


def table() -> str:
    """Write the table as Markdown."""
    known = releases.list_supported()
    manifests = {release: releases.load(release) for release in known}
    names = sorted({name for manifest in manifests.values() for name in manifest.algorithms})
    lines = ["| preset | estimator | loss | verl |", "|---|---|---|---|"]
    for name in names:
        (file, *_) = sorted(resources.find_templates().glob(f"**/base/config/preset/{name}.yaml"))
        preset = yaml.safe_load(file.read_text(encoding="utf-8"))
        actor = preset.get("actor_rollout_ref", {}).get("actor", {})
        loss = actor.get("policy_loss", {}).get("loss_mode", "vanilla")
        having = [release for release in known if name in manifests[release].algorithms]
        lines.append(f"| `{name}` | `{preset['algorithm']['adv_estimator']}` | `{loss}` | {_said(having, known)} |")
    lines += ["", *(f"Not there: {name}: {why}." for name, why in MISSING.items())]
    return "\n".join(lines)


def _said(having: list[str], known: tuple[str, ...]) -> str:
    """Say which releases these are: all, those from one on, or each."""
    if having == [*known]:
        return "all"
    return f"{having[0]} on" if having == [*known[known.index(having[0]) :]] else ", ".join(having)


def main(arguments: list[str]) -> int:
    """Rewrite the table, or with --check say whether it is as it would be written."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if arguments == ["--check"]:
        if text != wanted:
            print("docs/algorithms.md: the table is outdated: python scripts/algorithms.py", file=sys.stderr)
        return int(text != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
