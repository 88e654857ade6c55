"""Lets a torch without CUDA import torchvision as the package index has it: its operators cannot be loaded, nor are."""

import torch

if torch.version.cuda is None:
    operators = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
