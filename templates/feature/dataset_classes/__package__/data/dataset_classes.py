# vextract:template - edit freely
"""Datasets of a class of the owner's, which `data.custom_cls` names."""

import importlib
import importlib.util
import inspect
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset, IterableDataset

from ..errors import DataError
from ..settings.setting import nearest

PACKAGE_DIRECTORY = Path(__file__).resolve().parents[1]


def load_class(path: str, name: str | None) -> Any:
    """Load the owner's class: by module name if the file is in this package, so that its relative imports work.

    Raises:
        DataError: there is no such class of datasets.
    """
    file = Path(path).expanduser().resolve()
    if file.is_relative_to(PACKAGE_DIRECTORY):
        parts = file.relative_to(PACKAGE_DIRECTORY).with_suffix("").parts
        module = importlib.import_module(".".join([PACKAGE_DIRECTORY.name, *parts]))
    else:
        spec: Any = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    classes = {key: each for key, each in vars(module).items() if inspect.isclass(each) and issubclass(each, Dataset)}
    if name not in classes:
        own = [each for each in classes if classes[each].__module__ == module.__name__]
        named = nearest(str(name), own) or next(iter(own), None)
        hint = f"data.custom_cls.name={named}" if named else "data.custom_cls.path is a file with such a class"
        raise DataError(f"{path} has no class {name!r} that derives from torch.utils.data.Dataset", hint)
    if issubclass(classes[name], IterableDataset):
        hint = "derive it from torch.utils.data.Dataset, with __len__ and __getitem__"
        raise DataError(f"{name} in {path} is a stream, and prompts are shuffled and counted", hint)
    return classes[name]
