# vextract:vendored from verl 0.9.1: verl/utils/model.py
# upstream sha256: d38b260aa36c6eb93ae818c8e873008c49076a57fa8bae6d1a0e781661760f3c
# changed: dropped 34 unreachable definitions: AutoModelForVision2Seq, _VARLEN_MULTI_MODAL_KEYS, LambdaLayer, squeeze
#   and 30 more
# changed: unused imports dropped
# Copyright 2024 Bytedance Ltd. and/or its affiliates
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""
Utilities to create common models from huggingface
"""

import torch


def compute_position_id_with_mask(mask):
    return torch.clip(torch.cumsum(mask, dim=-1) - 1, min=0, max=None)
