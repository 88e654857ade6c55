def as_trainer(now, renamed):
    """Return what the fork's trainer calls `self`: what it keeps between steps, and what a project's has at hand."""
    self, batch, chosen = now.kept, now.batch, now.config.algorithm.adv_estimator
    self.config, self.global_steps, self.total_training_steps = now.config, now.step, now.total_steps
    if chosen in renamed:
        self.config = copy.deepcopy(now.config)
        self.config.algorithm.adv_estimator = renamed[chosen]
    found = {**batch.batch, "reward_tensor": batch.batch["token_level_scores"]}
    found["reward_extra_info"] = batch.non_tensor_batch
    self.tokenizer = now.tokenizer

    def reward_fn(data=None, return_dict=False, parts=0, **others):
        if parts:
            return tuple(found.get(f"returned_{part}") for part in range(parts))
        return found if return_dict else found["reward_tensor"]

    self.reward_fn = reward_fn
    return self
