# vextract:template - edit freely
"""A run goes on with the models that it began with."""

import shutil

from __package__.data.toy import ensure_toy_model


def test_another_base_model_is_noticed(train, tmp_path, capsys):
    """The reference of the KL divergence is read anew: one of the same shape would do without a word."""
    models = [str(ensure_toy_model(tmp_path / f"model_{seed}", task="succ2", seed=seed)) for seed in (0, 1)]
    shutil.copytree(models[0], tmp_path / "moved")

    def go_on(model, *settings, directory=None, **expected):
        path = f"actor_rollout_ref.model.path={model}"
        usual = ("scale=toy", "algorithm.use_kl_in_reward=false", "trainer.save_freq=1")
        return train(*usual, path, *settings, directory=directory, **expected)

    kl = "actor_rollout_ref.actor.use_kl_loss=true"
    run = go_on(models[0], kl)
    go_on(tmp_path / "moved", kl, "trainer.total_training_steps=2", directory=run)
    go_on(models[1], kl, "trainer.total_training_steps=3", directory=run, code=2)
    assert f"another model than the one that {run}/global_step_2 was trained with" in capsys.readouterr().err
    go_on(models[1], "trainer.total_training_steps=3", directory=run)  # nothing is read of it
    go_on(models[0], kl, "trainer.total_training_steps=4", "local.check_base_models=false", directory=run)
    assert "note: actor_rollout_ref.model.path is another model" in capsys.readouterr().err
