"""Which device each part of a run computes on. No GPU is needed: see `device.cpp` for the devices that stand in."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.project.running import check_python, overrides
from tests.project.support import PACKAGE, Configuration, make

ON_DEVICES = f"""
import json, os, sys, torch
sys.path[:0] = [{str(Path(__file__).parent)!r}]
from {PACKAGE} import LocalPPOTrainer, load_config
settings, places = json.loads(sys.argv[1]), json.loads(sys.argv[2])
if places is not None:
    import stand_in
    stand_in.register(sys.argv[3])
places = {{f"local.devices.{{part}}": place for part, place in (places or {{}}).items()}}
with LocalPPOTrainer(load_config(*settings, places, "trainer.resume_mode=disable")) as trainer:
    trainer.fit()
    models = (trainer.policy.module, trainer.critic.module, trainer.rollouts.engine.model)
    found = [next(module.parameters()).device for module in models]
    weights = [[float(w.double().sum()), w.flatten().tolist()[:9]] for _, w in trainer.policy.full_weights()]
print(json.dumps([[str(device) for device in (*found, trainer.reference.device)], weights]), flush=True)
os._exit(0)  # torch's threads for such devices do not end by themselves
"""
PLACES = (
    ({}, ["other:0"] * 4),
    ({"reference": "cpu"}, ["other:0", "other:0", "other:0", "cpu"]),
    ({"rollout": "other:1"}, ["other:0", "other:0", "other:1", "other:0"]),
    ({"policy": "cpu", "rollout": "other:1"}, ["cpu", "cpu", "other:1", "cpu"]),
    ({"policy": "other:1", "reference": "other:0", "rollout": "cpu"}, ["other:1", "other:1", "cpu", "other:0"]),
)


@pytest.mark.thorough
@pytest.mark.parametrize("release", ["0.4.0", "0.6.1", "0.7.1", "0.9.1"])
def test_parts_on_devices_of_their_own(
    verl: None, release: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every part is where it is to be, and weights are the same, but for what other kernels round.

    Which token is drawn may hang on that, so rollouts are compared where they are drawn.

    Tensors of different devices do not mix, so that one which lies on the wrong device ends the run.
    """
    root = make(Configuration(release, "hf", features=("critic", "placement")), tmp_path / "project").root
    built = tmp_path_factory.getbasetemp() / "device"
    built.mkdir(exist_ok=True)
    small = overrides("trainer.logger=[]", "actor_rollout_ref.actor.use_kl_loss=true", "algorithm.adv_estimator=gae")

    def run(places: Any) -> Any:
        arguments = [json.dumps(small), json.dumps(places), str(built)]
        done = check_python(root, "-c", ON_DEVICES, *arguments, timeout=600, PYTHONPATH=str(root))
        return json.loads(done.stdout.splitlines()[-1])

    usual_by_device = {"cpu": run(None)[1]}
    for places, devices in PLACES:
        found, weights = run(places)
        assert found == devices, places
        usual = usual_by_device.setdefault(devices[2].partition(":")[0], weights)
        for (total, first), (usual_total, usual_first) in zip(weights, usual, strict=True):
            assert total == pytest.approx(usual_total, abs=1e-3), places
            assert first == pytest.approx(usual_first, abs=1e-5), places
