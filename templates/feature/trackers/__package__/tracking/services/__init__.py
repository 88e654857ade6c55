# vextract:template - edit freely
"""Trackers elsewhere, by the names that `trainer.logger` has for them."""

from typing import Any

from .mlflow import MLflow
from .swanlab import SwanLab
from .trackio import Trackio
from .wandb import Wandb

SERVICES: dict[str, Any] = {service.name: service for service in (Wandb, MLflow, SwanLab, Trackio)}
