"""The user's own losses beside ours: named, checked, imported; tests/e2e/test_own_run.py trains with them."""

from unittest.mock import patch

import pytest
from verl.trainer.ppo import core_algos

from rpg.checks import verl
from rpg.config import freeze
from rpg.config.compose import compose
from tests.builders.toy_run import overrides, run_config
from tests.checks.cases import L, M

pytestmark = pytest.mark.usefixtures("local_cpu")
SOCKETS = "rpg.verl_plugin.rollout"
LOSS = """
from verl.trainer.ppo.core_algos import register_policy_loss
register_policy_loss({name!r})(lambda *_, **__: None)
"""


@pytest.fixture(autouse=True)
def own_registries():
    """What a test registers is gone after it: other files of this process read verl's registries whole."""
    with patch.dict(core_algos.POLICY_LOSS_REGISTRY), patch.dict(core_algos.ADV_ESTIMATOR_REGISTRY):
        yield


def test_files_and_modules_stand_beside_ours(toy, monkeypatch):
    monkeypatch.chdir(toy)
    own = ["method=null", "algorithm.adv_estimator=grpo", "rpg.external_lib=[mine.py,a.module]"]
    run = freeze.freeze(compose(None, [*overrides(toy), *own])[0])
    assert run[f"{M}.external_lib"] == SOCKETS
    assert run["actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module"] == SOCKETS
    assert run.rpg.external_lib == [str(toy / "mine.py"), "a.module"]


@pytest.mark.slow
def test_what_is_refused(toy):
    for text, said in (
        (None, "cannot be imported: FileNotFoundError"),
        ("raise SystemExit(3)\n", "cannot be imported: SystemExit"),
        (LOSS.format(name="rpg_urkl"), "it registers the loss 'rpg_urkl', which exists already"),
        ("", "is not registered with verl"),
    ):
        if text is not None:
            (toy / "mine.py").write_text(text)
        (error,) = verl.registered(run_config({"rpg.external_lib": [str(toy / "mine.py")], L: "mine_is_missing"}))
        assert said in error.message
