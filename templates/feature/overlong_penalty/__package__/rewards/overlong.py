# vextract:template
"""The penalty on long responses of DAPO."""


def overlong_penalty(length: int, limit: int, buffer: int, factor: float) -> float:
    """Punish long responses softly (DAPO, https://arxiv.org/abs/2503.14476, eq. 13).

    Upstream: verl/workers/reward_manager/dapo.py.

    Args:
        length: of the response, in tokens.
        limit: the longest that a response can be, `data.max_response_length`.
        buffer: over the last so many tokens the penalty grows from 0 to `factor`.
        factor: the penalty at `limit`.

    Returns:
        A number between -factor and 0, to be added to the reward.
    """
    return min(-(length - (limit - buffer)) / buffer * factor, 0.0)
