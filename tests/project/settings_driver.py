"""Runs in a project: which settings its runs read, and what another value of each is answered with.

python settings_driver.py record FILE            train as each line of stdin says; the settings that were read, as JSON
python settings_driver.py change FILE [BEGIN]    another value for each setting, one at a time; the answers, as JSON
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd()))

from omegaconf import DictConfig, OmegaConf
from omegaconf.basecontainer import BaseContainer

main = import_module("main")
package = next(Path().glob("*/training/trainer.py")).parts[0]
loading = import_module(f"{package}.settings.loading")
checks = import_module(f"{package}.settings.setting_checks")
unread = import_module(f"{package}.settings.setting")


def record(lines: list[str]) -> dict[str, list[str]]:
    """The settings that runs read, and the sections that they hand on whole (not those that write the config down)."""
    read: set[str] = set()
    handed_on: set[str] = set()
    running = False
    get, convert = DictConfig._get_impl, BaseContainer._to_content

    def watched_get(self: Any, key: Any, *arguments: Any, **named: Any) -> Any:
        if running:
            read.add(self._get_full_key(key))
        return get(self, key, *arguments, **named)

    def watched_convert(conf: Any, *arguments: Any, **named: Any) -> Any:
        if running:
            frame = sys._getframe(1)
            while "omegaconf" in frame.f_code.co_filename:
                frame = frame.f_back  # type: ignore[assignment]
            if Path(frame.f_code.co_filename).name != "run_tracker.py":
                handed_on.add(conf._get_full_key(None) or "")
        return convert(conf, *arguments, **named)

    DictConfig._get_impl = watched_get  # type: ignore[method-assign]
    BaseContainer._to_content = staticmethod(watched_convert)  # type: ignore[method-assign]
    for number, line in enumerate(lines):
        small = ["trainer.total_training_steps=1", "trainer.logger=[console]", "local.save_last=false"]
        config = loading.load_config(main.CONFIG_DIRECTORY, [*line.split(), *small])
        config.trainer.default_local_dir = f"runs/{number}"
        loading.settle_device(config)
        running = True
        main.read_config = lambda _, config=config: config  # type: ignore[attr-defined]
        assert main.main([]) == 0, line
        running = False
    return {"read": sorted(read), "handed_on": sorted(handed_on - {""})}


def change(begin: str) -> dict[str, str]:
    """What is said to another value of each setting that begins so: "refused: ...", "said: ...", or "accepted"."""
    default = loading.load_config(main.CONFIG_DIRECTORY)
    written, plain = unread.leaves(OmegaConf.to_container(default, resolve=False)), loading._plain(default)
    return {name: answer(default, name, value, plain[name]) for name, value in written if name.startswith(begin)}


def answer(config: DictConfig, name: str, written: Any, plain: Any) -> str:
    """To one value that has the setting's type, and that it does not come with; the config stays as it is."""
    try:
        OmegaConf.update(config, name, another(name, OmegaConf.select(config, name)), force_add=True)
        loading.check_types(config, {name: plain})  # all others have their default
        for problem in checks.problems(config, [name]):
            raise loading.ConfigError(*problem)
        said = list(checks.config_notes(config, [name]))
    except loading.ConfigError as error:
        return f"refused: {error}"
    finally:
        OmegaConf.update(config, name, written, merge=False, force_add=True)
    return f"said: {said}" if said else "accepted"


def another(name: str, value: Any) -> Any:
    """Another value of the same type."""
    setting = unread.known_of(name)
    choices = setting.values
    if choices:
        return next((choice for choice in choices if choice not in (value, None)), "none_of_these")
    if value is None and setting.null_or:
        value = setting.null_or[0]()
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value / 2 if isinstance(value, float) and value else value + 1
    if isinstance(value, str):
        return f"{value}x"
    return {"some": 1} if not OmegaConf.is_list(value) else ["x"]


if __name__ == "__main__":
    found: Any = record(sys.stdin.read().splitlines()) if sys.argv[1] == "record" else change("".join(sys.argv[3:]))
    Path(sys.argv[2]).write_text(json.dumps(found))
