"""Runs a training script of TRL's up to its trainer, and writes down what that is given.

`python recorded.py RECORD SCRIPT ARGUMENT...`, in a jail (`benchmarks.under_trl`): the script runs as it is, with TRL's
own config classes. Models, tokenizers, data sets of the hub and packages that are not here are stand-ins, a GPU is said
to be there, and the trainer ends the run.
"""

from __future__ import annotations

import dataclasses
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import io
import json
import os
import runpy
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

TRAINERS = ("GRPOTrainer", "RLOOTrainer")
CONFIGS = ("GRPOConfig", "RLOOConfig")
IN_ORDER = ("model", "reward_funcs", "args", "train_dataset", "eval_dataset", "processing_class")
# Settings of earlier releases of TRL, for what reads a command line.
EARLIER: tuple[tuple[str, type], ...] = (
    *((name, int) for name in ("max_prompt_length", "vllm_max_model_len", "vllm_server_timeout")),
    *((name, bool) for name in ("use_liger_loss", "use_liger", "group_by_length", "vllm_enable_prefix_caching")),
    *((name, str) for name in ("vllm_device", "vllm_dtype", "vllm_guided_decoding_regex", "evaluation_strategy")),
    *((name, float) for name in ("epsilon_low", "ref_model_mixup", "warmup_ratio")),
    *((name, bool) for name in ("overwrite_output_dir", "log_level_replica_all")),
)
LIBRARIES = ("site-packages", f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/")
_NAMES = ("answer", "context", "input", "instruction", "output", "problem", "prompt", "query", "question", "response")
_ROW = json.dumps({**dict.fromkeys(_NAMES, "made up"), "id": 1, "solution": "1", "label": "1", "text": "made up"})
# What stands in files of rows that are not here.
ROWS = {".json": f"[{_ROW}]", ".jsonl": f"{_ROW}\n" * 8, ".txt": "made up\n", ".csv": "prompt,answer\nmade up,1\n"}
HERE = __file__
# The same of what it says of the model.
EARLIER_MODELS: tuple[tuple[str, type], ...] = (("torch_dtype", str),)
_loads = json.loads
_record = Path(sys.argv[1])


class StandIn(MagicMock):
    """Stands for whatever is not here: a package, a model, rows."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for name in ("__lt__", "__le__", "__gt__", "__ge__"):
            setattr(self, name, lambda _, other: False)
        self.__iter__ = lambda _: iter((StandIn(), StandIn()))  # type: ignore[method-assign,assignment]

    def _get_child_mock(self, /, **_: Any) -> StandIn:
        return StandIn()

    def __mro_entries__(self, _: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)


def named(name: Any) -> StandIn:
    """Return a model, or a tokenizer, that was loaded by its name."""
    found = StandIn()
    found.loaded_from = str(name) if isinstance(name, (str, os.PathLike)) else None
    for moved in ("to", "cuda", "eval", "train", "half", "float", "bfloat16", "merge_and_unload"):
        getattr(found, moved).return_value = found
    return found


def rows(*_: Any, **settings: Any) -> StandIn:
    """Return rows, which stay rows whatever is done to them."""
    found = StandIn()
    for name in (
        "map",
        "filter",
        "shuffle",
        "select",
        "rename_column",
        "remove_columns",
        "cast_column",
        "take",
        "sort",
    ):
        getattr(found, name).return_value = found
    for name in ("add_column", "rename_columns", "select_columns", "flatten_indices", "shard", "skip", "with_format"):
        getattr(found, name).return_value = found
    found.__getitem__.side_effect = lambda key: StandIn() if isinstance(key, int) else found
    found.train_test_split.return_value = {"train": found, "test": found}
    found.column_names = ["prompt", "question", "answer", "solution", "problem"]
    found.keys.return_value = ["train", "test"]
    found.values.return_value = [found]
    found.__contains__.return_value = True
    found.__len__.return_value = 1000
    return found


class Package(types.ModuleType):
    """A module that has whatever is asked of it: of another one what that has, and stand-ins."""

    def __init__(self, name: str, other: types.ModuleType | None = None, own: dict[str, Any] | None = None) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__dict__["_other"], self.__dict__["_own"] = other, own or {}

    def __getattr__(self, name: str) -> Any:
        if name in self._own:
            return self._own[name]
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._other, name, None) if self._other is not None else None
        if found is None or (isinstance(found, types.ModuleType) and self._other is not None):
            found = _lent(f"{self.__name__}.{name}", name)
        setattr(self, name, found)
        return found


class Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds packages that are not here."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if any(part in _asked_by() for part in LIBRARIES):
            return None  # a library looks for what it can do without
        above = sys.modules.get(fullname.rpartition(".")[0])
        if "." in fullname and not isinstance(above, Package):
            return None  # a module that a package which is here has not: that is the package's business
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        if spec.name.startswith("trl."):
            return Package(spec.name, _module(spec.name), _ours)
        return Package(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: the module is whole."""


def _asked_by() -> str:
    """Return the file that imports something."""
    frame = sys._getframe(2)
    while frame is not None and ("importlib" in frame.f_code.co_filename or frame.f_code.co_filename == HERE):
        frame = frame.f_back  # type: ignore[assignment]
    return "" if frame is None else frame.f_code.co_filename


def _module(name: str) -> types.ModuleType | None:
    try:
        return _real[name] if name in _real else importlib.import_module(name)
    except Exception:
        return None


def _lent(whole: str, name: str) -> Any:
    if name in ("FastLanguageModel", "FastModel", "FastVisionModel"):
        found = StandIn()
        found.from_pretrained.side_effect = lambda *given, **settings: (
            named(given[0] if given else settings.get("model_name")),
            StandIn(),
        )
        found.get_peft_model.side_effect = adapted
        return found
    if name.startswith("is_"):
        return lambda *_, **__: True
    return StandIn(name=whole)


def adapted(model: Any, config: Any = None, **settings: Any) -> StandIn:
    """Return a model with an adapter."""
    found = named(getattr(model, "loaded_from", None))
    found.adapter = config if config is not None else settings
    return found


def recorded_config(real: type) -> type:
    """Return TRL's config class: one that takes what other releases take too, and checks nothing."""

    def made(self: Any, **given: Any) -> None:
        for item in dataclasses.fields(type(self)):
            if item.default_factory is not dataclasses.MISSING:
                value = item.default_factory()
            else:
                value = None if item.default is dataclasses.MISSING else item.default
            object.__setattr__(self, item.name, value)
        for name, value in given.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_given", dict(given))

    known = {item.name for item in dataclasses.fields(real)}
    further = [(name, kind | None, None) for name, kind in EARLIER if name not in known]
    found = dataclasses.make_dataclass(real.__name__, further, bases=(real,))
    made.__signature__ = inspect.signature(found.__init__)  # type: ignore[attr-defined]
    found.__init__ = made  # type: ignore[misc]
    found.__post_init__ = lambda self: None  # type: ignore[attr-defined]
    found.__setattr__ = object.__setattr__  # type: ignore[method-assign,assignment]
    found.__getattr__ = _later  # type: ignore[attr-defined]
    found.__module__ = real.__module__
    return found


def _later(self: Any, name: str) -> StandIn:
    """Return what a config knows once it has looked at its machine.

    Raises:
        AttributeError: it is Python's business.
    """
    if name.startswith("_"):
        raise AttributeError(name)
    return StandIn()


def recorded_trainer(name: str) -> type:
    """Return a trainer that writes down what it is given, and ends the run."""

    def made(self: Any, *given: Any, **settings: Any) -> None:
        record(name, {**dict(zip(IN_ORDER, given, strict=False)), **settings})

    return type(name, (), {"__init__": made, "__getattr__": lambda self, asked: StandIn(name=asked)})


def record(trainer: str, given: dict[str, Any]) -> None:
    """Write down a trainer's arguments and settings, and end."""
    config, model = given.get("args") or given.get("config"), given.get("model") or given.get("policy")
    adapter = given.get("peft_config") or getattr(model, "adapter", None)
    scorers = given.get("reward_funcs") or given.get("reward_model")
    scorers = scorers if isinstance(scorers, (list, tuple)) else [scorers]
    found = {
        "trainer": trainer,
        "settings": dict(_said(config)),
        "whole": {} if config is None else {name: plain(value) for name, value in _values(config)},
        "model": model if isinstance(model, str) else plain(getattr(model, "loaded_from", None)),
        "scorers": [plain(getattr(item, "__name__", item)) for item in scorers],
        "adapter": None if adapter is None else dict(_adapter(adapter)),
    }
    _record.write_text(json.dumps(found, indent=1))
    os._exit(0)


def _values(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield all settings of a config."""
    if isinstance(config, dict):
        yield from config.items()
    elif not isinstance(config, StandIn):
        yield from ((name, value) for name, value in vars(config).items() if not name.startswith("_"))


def _said(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield the settings that a config has not by default."""
    given = getattr(config, "__dict__", {}).get("_given", {})
    defaults = {}
    if dataclasses.is_dataclass(config):
        for item in dataclasses.fields(config):
            factory = item.default_factory
            defaults[item.name] = item.default if factory is dataclasses.MISSING else factory()
    for name, value in _values(config):
        if name in given or name not in defaults or not _same(defaults[name], value):
            yield name, plain(value)


def _same(one: Any, other: Any) -> bool:
    if other in (None, False) and one in (False, "", "no", None):  # what a parser makes of what nobody says
        return True
    try:
        return bool(one == other) and type(one) is type(other)
    except Exception:
        return False


def _adapter(adapter: Any) -> Iterator[tuple[str, Any]]:
    given = adapter if isinstance(adapter, dict) else getattr(adapter, "__dict__", {})
    for name in ("r", "lora_alpha", "lora_dropout", "target_modules"):
        if name in given:
            value = given[name]
            yield name, sorted(value) if isinstance(value, set) else plain(value)


def plain(value: Any) -> Any:
    """Return a value as JSON has it; of others how they are shown, behind a mark."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value.value if hasattr(value, "value") else value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, os.PathLike) else f"<{type(value).__name__}>"


def _loads_anything() -> None:
    """Have everything that loads something by name give a stand-in of that name."""
    import builtins

    import datasets
    import peft
    import torch
    import transformers
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

    loads = classmethod(lambda cls, name=None, *_, **settings: named(name or settings.get("model_name")))
    autos = [
        kind for name, kind in vars(transformers.models.auto.modeling_auto).items() if name.startswith("AutoModel")
    ]
    classes = [_BaseAutoModelClass, *autos, transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]
    classes += [transformers.AutoTokenizer, transformers.AutoProcessor, transformers.AutoConfig]
    for kind in (*classes, transformers.GenerationConfig, transformers.PreTrainedConfig):
        kind.from_pretrained = loads  # type: ignore[method-assign,assignment]
    for whole in ("pipeline", "set_seed"):
        setattr(transformers, whole, lambda *_, **__: StandIn())
    for module, name in ((os.path, "exists"), (os.path, "isfile"), (Path, "exists"), (Path, "is_file")):
        setattr(module, name, _is_here(getattr(module, name)))
    json.loads = _read
    json.load = lambda file, **settings: _read(file.read(), **settings)
    builtins.open = _first(open, _opened)  # type: ignore[assignment]
    for name in ("load_dataset", "load_from_disk", "concatenate_datasets", "interleave_datasets"):
        setattr(datasets, name, _first(getattr(datasets, name), rows))
    for name in ("from_list", "from_dict", "from_pandas", "from_generator", "from_json", "from_parquet", "from_csv"):
        setattr(datasets.Dataset, name, staticmethod(_first(getattr(datasets.Dataset, name), rows)))
    datasets.Dataset.map = lambda self, *_, **__: self  # type: ignore[method-assign]
    datasets.Dataset.filter = lambda self, *_, **__: self  # type: ignore[method-assign]
    peft.get_peft_model = adapted  # type: ignore[assignment]
    peft.prepare_model_for_kbit_training = lambda model, **_: model
    peft.PeftModel.from_pretrained = classmethod(  # type: ignore[method-assign,assignment]
        lambda cls, model, path=None, **_: named(getattr(model, "loaded_from", None))
    )
    for name in ("init_process_group", "barrier", "destroy_process_group", "broadcast", "all_reduce"):
        setattr(torch.distributed, name, lambda *_, **__: None)
    for name, value in (("get_rank", 0), ("get_world_size", 1), ("is_initialized", False)):
        setattr(torch.distributed, name, lambda *_, found=value, **__: found)
    on_a_gpu: dict[str, Any] = {"is_available": True, "is_bf16_supported": True, "device_count": 1, "current_device": 0}
    on_a_gpu |= {"get_device_capability": (8, 0)}
    for name in ("set_device", "empty_cache", "get_device_name", "get_device_properties", "memory_allocated"):
        on_a_gpu[name] = StandIn()
    for name, value in on_a_gpu.items():
        setattr(torch.cuda, name, lambda *_, found=value, **__: found)


def _first(real: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that tries another one before it stands in."""

    def tried(*given: Any, **settings: Any) -> Any:
        try:
            return real(*given, **settings)
        except Exception:
            return other(*given, **settings)

    return tried


def _is_here(real: Callable[..., bool]) -> Callable[..., bool]:
    """Return a function that says that files of rows are here."""
    return lambda path, *given, **settings: real(path, *given, **settings) or _is_of_rows(path)


def _is_of_rows(path: Any) -> bool:
    """Tell whether a file is one of rows, by its name."""
    place = Path(str(path))
    return place.suffix in ROWS and not any(part in place.stem for part in ("config", "metric", "result", "state"))


class Row(dict[str, Any]):
    """A made-up row, which has every column."""

    def __missing__(self, key: str) -> str:
        return "made up"


def _read(text: Any, **settings: Any) -> Any:
    """Read JSON; of made-up rows with every column."""
    return _loads(text, **settings, **({"object_hook": Row} if "made up" in str(text) else {}))


def _opened(path: Any, mode: str = "r", *_: Any, **__: Any) -> Any:
    """Return a file of rows that is not here: made up.

    Raises:
        FileNotFoundError: it is none of rows.
    """
    kind = Path(path).suffix
    if "r" not in mode or not _is_of_rows(path):
        raise FileNotFoundError(path)
    return io.BytesIO(ROWS[kind].encode()) if "b" in mode else io.StringIO(ROWS[kind])


def main() -> None:
    script, arguments = sys.argv[2], sys.argv[3:]
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    sys.path.append(str(Path.cwd()))
    sys.path += [str(path) for path in (Path.cwd() / "src",) if path.is_dir()]
    sys.meta_path.append(Missing())
    at = Path(script).resolve()
    above = at.parent
    while (above / "__init__.py").is_file():
        above = above.parent
    if above == at.parent:
        runpy.run_path(script, run_name="__main__")
    else:  # a module of a package
        sys.path[0] = str(above)
        sys.path.append(str(at.parent))
        runpy.run_module(".".join(at.relative_to(above).with_suffix("").parts), run_name="__main__")


if __name__ == "__main__":
    import trl

    for _name in dir(trl):
        getattr(trl, _name, None)  # what it imports when it is asked for
    _loads_anything()
    _ours = {name: recorded_config(getattr(trl, name)) for name in CONFIGS}
    _known = {item.name for item in dataclasses.fields(trl.ModelConfig)}
    _earlier = [(name, kind | None, None) for name, kind in EARLIER_MODELS if name not in _known]
    _ours["ModelConfig"] = dataclasses.make_dataclass("ModelConfig", _earlier, bases=(trl.ModelConfig,))
    _ours["ModelConfig"].trust_remote_code = False  # which is the trainer's since
    _ours |= {name: recorded_trainer(name) for name in TRAINERS}
    _real = {name: module for name, module in sys.modules.items() if name == "trl" or name.startswith("trl.")}
    for name in _real:
        del sys.modules[name]
    sys.modules["trl"] = Package("trl", trl, _ours)
    main()
