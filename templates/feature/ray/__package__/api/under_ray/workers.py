# vextract:template - edit freely
"""Rewards that a script gives, in workers of verl: they call `compute_score` once for each sample.

`api/under_ray/trainer.py` writes which functions these are, and where, beside the export; they are imported by file and
name.
"""

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...data.makers import factory_of
from ...rewards.forms import form_of
from ...rewards.functions import Batch, Joint, Part, sample_of
from ...rewards.scoring import Scorer
from ...training.given_environments import EnvironmentReward

# In `extra_info` of a row: what else the row has, as JSON.
GIVEN = "given_by_script"


class GivenReward:
    """Scores a sample as `FunctionsRewardManager` does.

    Args:
        settings: for train and val, either functions, each with file, name, component and weight, or an environment
            with file, name and settings.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._known: dict[str, Any] = {}

    def __call__(
        self, data_source: str, solution_str: str, ground_truth: Any, extra_info: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Score one response. Arguments as verl passes them.

        Returns:
            `score`, the reward, and the score of each function; 0 where one has none.
        """
        info = dict(extra_info or {})
        row = json.loads(info.pop(GIVEN, None) or "{}")
        split = "val" if row.get("split") == "val" and "val" in self._settings else "train"
        score = self._scorer(split)
        if isinstance(score, EnvironmentReward):
            return score(data_source, solution_str, ground_truth, info)
        columns = row.get("columns", {})
        known = {"data_source": data_source, "ground_truth": ground_truth, "extra_info": info}
        sample = sample_of(solution_str, row.get("prompt", ""), columns | known)
        (result,) = score(Batch([sample], [*columns, "ground_truth"], None))
        return {name: 0.0 if value is None else value for name, value in result.items()}

    def _scorer(self, split: str) -> Any:
        if split not in self._known:
            settings = self._settings[split]
            if "environment" in settings:
                place = settings["environment"]
                make = factory_of(imported(place["file"], place["name"]))
                self._known[split] = EnvironmentReward(make, place["settings"])
            else:
                self._known[split] = Joint([_part(place) for place in settings["functions"]])
        return self._known[split]


def imported(file: str, name: str) -> Any:
    """Return what a file has under a name; the file's folder can be imported from, as when it is run."""
    folder = str(Path(file).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    module = f"given_{Path(file).stem}"
    if module not in sys.modules:
        spec = importlib.util.spec_from_file_location(module, file)
        assert spec is not None and spec.loader is not None
        sys.modules[module] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[module])
    return getattr(sys.modules[module], name)


def _part(place: Mapping[str, Any]) -> Part:
    function = imported(place["file"], place["name"])
    part = Part(place["component"], function, form_of(function), place["weight"])
    part.scorer = Scorer(part.call) if part.form.kind == "sample" else None
    return part
