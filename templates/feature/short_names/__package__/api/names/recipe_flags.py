# vextract:template - edit freely
"""Flags of train_grpo and train_ppo that only this project's recipe has: none."""

from dataclasses import dataclass

from .short_names import ShortNames


@dataclass(kw_only=True)
class RecipeFlags(ShortNames):
    """Further flags, as `api/names/short_names.py` has them."""
