"""What projects are told of their settings, from templates/schema.yaml."""

import json

from extractor.pipeline.render.registered import collect_registered_words
from extractor.pipeline.render.schema import map_aliases, select_schema, write_shipped
from extractor.values.setting_types import read_types_and_words

LR, STEPS = "actor_rollout_ref.actor.optim.lr", "actor_rollout_ref.actor.optim.lr_warmup_steps"
CODE = '''
class Known(str, Enum):
    GAE = "gae"


@register(Known.GAE)
def gae(batch, lam):
    """It has no gamma."""
    return batch["values"] * lam


@register("own")
def own(config):
    return config.get("gamma")
'''


def test_a_project_is_told_of_its_own_settings() -> None:
    told = select_schema([LR, STEPS, "mine.x", "local.dtype"], {"mine.x": [0.5]}, {"mine.x": ("engine vllm",)}, {})
    text = f"{{{write_shipped({'schema': told, 'modes': ('sync',), 'absent': {}})}}}"
    assert read_types_and_words(text) == (
        {"local.dtype": "str"},
        {"local.dtype": ("float32", "bfloat16", "float16", None)},
    )
    known = json.loads(text)["schema"]
    assert known[LR] == {"range": "0 or more"}
    assert known["mine.x"] == {"unread": [0.5], "readers": "engine vllm"}
    # Where several features know the word, the schema says which one to name.
    log_probs, both = "actor_rollout_ref.rollout.calculate_log_probs", ("feature overlap", "feature watch")
    assert select_schema([log_probs], {log_probs: [False]}, {log_probs: both}, {})[log_probs] == {
        "unread": (False,),
        "readers": "feature watch",
    }
    # What only another setting could switch off is not said of one that the project lacks.
    ratio = "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio"
    assert "only_with" not in select_schema([ratio], {}, {}, {})[ratio]
    assert "only_with" in select_schema([ratio, STEPS], {}, {}, {})[ratio]
    assert map_aliases([LR]) == {"learning_rate": LR, "lr": LR}


def test_what_registered_functions_read() -> None:
    words = collect_registered_words(CODE, "register")
    assert {"lam", "values"} <= words["gae"]
    assert "gamma" not in words["gae"]
    assert "gamma" in words["own"]
