"""The reference pages of the site: every command, from the command line, and every config key, from its comments.

python scripts/reference.py commands      print the page of commands
python scripts/reference.py config        print the page of config keys
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer
import yaml

from extractor.cli.app import app
from extractor.pipeline.generate import complete, list_recipes
from extractor.pipeline.render import render_config
from extractor.pipeline.render.schema import read_schema
from extractor.values import releases
from extractor.values.configtree import flatten
from extractor.values.options import Options

MAIN = "config/ppo_trainer.yaml"
# Folders of config/ whose files are chosen by name: what each sets is listed, and not explained key by key.
CHOICES = {
    "preset": "Presets: `preset=NAME`",
    "recipe": "Recipes: `recipe=NAME`",
    "scale": "Sizes: `scale=NAME`",
    "critic_scale": "Sizes of the critic: `critic_scale=NAME`",
}


def commands_page() -> str:
    """Write the reference of the command line as Markdown."""
    top: Any = typer.main.get_command(app)
    parts = [
        "# Commands",
        "Generated from the command line itself; `vextract COMMAND --help` prints the same.",
        "Reports go to stdout, everything else to stderr. Exit codes: 0 done, 1 drift or a failed check, 2 usage, "
        "3 source not available or not as pinned, 70 a bug in vextract, 130 interrupted.",
        "## vextract",
        top.help or "",
        _options(top),
    ]
    for path, command in _commands(top, "vextract"):
        parts += [
            f"## {path}",
            _usage(command, path),
            _paragraphs(command.help),
            _arguments(command),
            _options(command),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _usage(command: Any, path: str) -> str:
    pieces = [path, "[OPTIONS]"]
    for item in command.params:
        if item.param_type_name == "argument":
            name = (item.metavar or item.name).upper()
            name += "..." * (item.nargs == -1)
            pieces.append(name if item.required or name.startswith("[") else f"[{name}]")
    return f"```text\n{' '.join(pieces)}\n```"


def _paragraphs(text: str | None) -> str:
    return re.sub(r"[ \t]+\n|\n[ \t]+", "\n", (text or "").replace("\b", "").strip())


def _arguments(command: Any) -> str:
    found = [item for item in command.params if item.param_type_name == "argument" and item.help]
    return _table("argument", [((item.metavar or item.name).upper(), item.help, None) for item in found])


def _options(command: Any) -> str:
    found = [item for item in command.params if item.param_type_name == "option" and not getattr(item, "hidden", False)]
    return _table("option", [(_flag(item), item.help or "", item.default) for item in found])


def _flag(option: Any) -> str:
    flags = ", ".join([*option.opts, *option.secondary_opts])
    return flags if option.is_flag else f"{flags} {option.metavar or option.name.upper()}"


def _table(kind: str, rows: list[tuple[str, str, Any]]) -> str:
    if not rows:
        return ""
    lines = [f"| {kind} | meaning |", "|---|---|"]
    for name, text, default in rows:
        shown = f" Default: `{default}`." if isinstance(default, str | int) and not isinstance(default, bool) else ""
        lines.append(f"| `{_cell(name)}` | {_cell(text)}{shown} |")
    return "\n".join(lines)


@dataclass(frozen=True)
class Key:
    """A setting: its dotted name, its default as YAML, and the comment that stands above it."""

    name: str
    default: str
    comment: str


def config_page() -> str:
    """Write the reference of every config key of a project with the newest release, as Markdown."""
    release = releases.find_default()
    parts = [
        "# Config keys",
        f"Generated from the commented `config/` of a project with verl {release}, all features and engine vllm. Keys "
        "are set on the command line of `main.py`, or in the file that the heading names. "
        "[Which file wins](../which-file-wins.md) says in which order files are read.",
    ]
    files = all_config_files(release)
    homes = packages(files[MAIN])
    for path in [MAIN, *sorted(set(files) - {MAIN})]:
        folder = path.split("/")[1]
        if folder in CHOICES:
            continue
        below: dict[str, list[Key]] = {}
        for key in keys_of(files[path], homes.get(folder, "")):
            below.setdefault(_section(key.name), []).append(key)
        parts += [f"## {path}", _remark(files[path]) if path != MAIN else ""]
        for section, keys in below.items():
            lines = [f"| key of `{section}` | default | meaning | may be |", "|---|---|---|---|"]
            above = ""  # a comment on several keys stands beside the first of them
            for key in keys:
                name, comment = key.name.removeprefix(f"{section}."), key.comment if key.comment != above else ""
                lines.append(f"| `{name}` | `{_cell(key.default)}` | {_cell(comment)} | {_cell(limits_of(key.name))} |")
                above = key.comment
            parts.append("\n".join(lines))
    for folder, title in CHOICES.items():
        parts.append(f"## {title}")
        for path in sorted(path for path in files if path.split("/")[1] == folder):
            name = path.rpartition("/")[2].removesuffix(".yaml")
            values = flatten(yaml.safe_load(files[path]) or {})
            lines = [f"- `{key}={_yaml(value)}`" for key, value in values.items()]
            parts += [f"### {folder}={name}", _remark(files[path]), "\n".join(lines)]
    return "\n\n".join(part for part in parts if part) + "\n"


def limits_of(key: str) -> str:
    """Say what a setting may be and when it counts, by templates/schema.yaml."""
    known = read_schema().get(key, {})
    values, switches = known.get("values", ()), known.get("only_with", ())
    said = [known.get("range", "")]
    said += [", ".join(f"`{_yaml(value)}`" for value in values)] if isinstance(values, list) else []
    for switch in [switches] if isinstance(switches, str) else switches:
        name, wanted = switch.split("=")
        said.append(f"counts {f'unless `{name}={wanted[1:]}`' if wanted.startswith('!') else f'with `{switch}`'}")
    return "; ".join(filter(None, said))


def all_config_files(release: str) -> dict[str, str]:
    """Return the config files of projects with this release, all features, and each engine and recipe."""
    manifest = releases.load(release)
    engine = "vllm" if "vllm" in manifest.engines else "hf"
    features = tuple(item.name for item in manifest.features if not item.engines or engine in item.engines)
    files: dict[str, str] = {}
    for recipe in list_recipes(manifest):
        options = complete(Options("myproj", release, engine, "grpo", features, recipe), manifest)
        made = render_config(manifest, options)
        if recipe != "toy":
            made = {path: text for path, text in made.items() if path.startswith(f"config/recipe/{recipe}.")}
        files.update(made)
    if "sglang" in manifest.engines:
        served = render_config(manifest, Options("myproj", release, "sglang"))
        files.update({path: text for path, text in served.items() if path.startswith("config/server/")})
    return files


def packages(main: str) -> dict[str, str]:
    """Say where the defaults list of the main file puts each folder: "optim" -> "actor_rollout_ref.actor.optim"."""
    found = {}
    for entry in yaml.safe_load(main)["defaults"]:
        if isinstance(entry, dict):
            (group,) = entry
            folder, _, package = group.removeprefix("optional ").partition("@")
            found[folder] = "" if package == "_global_" else package or folder
    return found


def keys_of(text: str, package: str) -> list[Key]:
    """Read the settings of a YAML file, each with the comment above it or above the keys that it follows."""
    lines = text.splitlines()
    found: list[Key] = []
    _walk(yaml.compose(text), package, lines, found)
    return found


def _walk(node: yaml.Node | None, prefix: str, lines: list[str], found: list[Key]) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        name = f"{prefix}.{key.value}".lstrip(".")
        if name.endswith("defaults") and isinstance(value, yaml.SequenceNode):
            continue
        if isinstance(value, yaml.MappingNode) and value.value:
            _walk(value, name, lines, found)
        else:
            found.append(Key(name, _yaml(yaml.safe_load(yaml.serialize(value))), _comment(lines, key.start_mark)))


def _comment(lines: list[str], mark: yaml.Mark) -> str:
    """The comment of a key: beside it, above it, or above its neighbours where one stands for several keys."""
    beside = re.search(r"\s#\s(.*)$", lines[mark.line])
    if beside:
        return beside[1]
    row, indent = mark.line - 1, mark.column
    while row >= 0 and re.match(rf" {{{indent}}}[\w\"]", lines[row]):
        row -= 1
    said: list[str] = []
    while row >= 0 and re.match(rf" {{{indent}}}#", lines[row]):
        said.insert(0, lines[row].strip().removeprefix("#").strip())
        row -= 1
    parent = row >= 0 and not said and indent and lines[row].strip().endswith(":")
    return _comment(lines, yaml.Mark("", 0, row, indent - 2, None, None)) if parent else " ".join(said)


def _remark(text: str) -> str:
    """Return what a file says at its head, below its first line."""
    said = []
    for line in text.splitlines()[1:]:
        if not line.startswith("#"):
            break
        said.append(line.removeprefix("#").strip())
    return " ".join(said).strip()


def _section(name: str) -> str:
    """The first two levels of a key, which a table is made of."""
    parts = name.split(".")
    return ".".join(parts[: min(2, len(parts) - 1)])


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n").strip()


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


if __name__ == "__main__":
    print({"commands": commands_page, "config": config_page}[sys.argv[1]]())
