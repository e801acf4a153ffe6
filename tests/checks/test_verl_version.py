"""Another verl: refused before anything of it is read, or tried, and then every part that differs is named."""

import subprocess
import sys

import pytest

import rpg.verl_plugin
from rpg.checks import preflight, verl_own, verl_version
from rpg.checks.finding import CHEAP_OR_VERL, Run
from rpg.launching import compose, start
from rpg.verl_plugin import parts_of_ray_and_vllm, parts_of_verl, version
from rpg.verl_plugin.parts import Part
from tests.checks.conftest import overrides, refusal, run_of

OTHER = "0.10.0"
ABSENT = Part("verl.trainer.ppo.core_algos", "agg_loss_of_old", "sums")


@pytest.fixture
def other(monkeypatch):
    """Verl's metadata say another version; RPG_ALLOW_VERL is not set."""
    monkeypatch.setattr(version, "installed", lambda: OTHER)
    monkeypatch.delenv(version.ALLOW, raising=False)
    monkeypatch.setenv("VERL_PLATFORM", "cpu")


@pytest.fixture
def tried(other, monkeypatch):
    """The same, with RPG_ALLOW_VERL=1."""
    monkeypatch.setenv(version.ALLOW, "1")


def table(monkeypatch, **users: Part) -> None:
    """Make the table this one: a file of ours for a part each, with / for __."""
    parts = {f"{user.replace('__', '/')}.py": (part,) for user, part in users.items()}
    monkeypatch.setattr(parts_of_verl, "PARTS", parts)
    monkeypatch.setattr(parts_of_ray_and_vllm, "PARTS", {})


REFUSAL = (
    "verl=0.10.0: is not 0.9.1, for which this is written and with which it is tested; "
    "pip install verl==0.9.1, or set RPG_ALLOW_VERL=1 to try it"
)


@pytest.mark.parametrize("dry", ["", "1"])
def test_another_verl_is_refused(other, toy, monkeypatch, capsys, dry):
    """Before its configuration is read, on which ours might not even fit."""
    monkeypatch.setenv("DRY_RUN", dry)
    monkeypatch.setattr(compose, "compose_config", lambda overrides: pytest.fail("it was composed"))
    assert start.main(overrides(toy)) == 2
    assert capsys.readouterr().err == f"error: {REFUSAL}\n"
    assert not (toy / "run").exists()


def test_as_a_check_it_says_the_same_and_verl_is_not_asked(other, toy):
    run = run_of(toy)
    assert refusal(run) == REFUSAL
    asked = {check.name for check, _ in preflight.ask(run, CHEAP_OR_VERL)}
    assert "verl's version" in asked
    assert not asked & {check.name for check in preflight.CHECKS if check.cost == "verl"}


def test_no_verl_at_all(monkeypatch, capsys):
    monkeypatch.setattr(version, "installed", lambda: None)
    monkeypatch.setenv(version.ALLOW, "1")
    assert start.main(["trainer.experiment_name=t"]) == 2
    said = "error: verl: is not installed; bash scripts/setup.sh, or pip install verl==0.9.1\n"
    assert capsys.readouterr().err == said


def test_another_verl_that_is_tried_is_warned_about(tried, toy):
    (warning,) = [finding for finding in preflight.refuse(run_of(toy), ["cheap"]) if finding.key == "verl"]
    assert "RPG_ALLOW_VERL=1 tries it" in str(warning)


def test_ours_is_not_compared(toy, monkeypatch):
    table(monkeypatch, rpg__verl_plugin__policy_loss=ABSENT)
    assert not list(verl_version.verl_parts(run_of(toy)))


@pytest.mark.slow
def test_another_verl_with_the_same_parts_may_run(tried, toy):
    found = [finding for _, found in preflight.ask(run_of(toy), CHEAP_OR_VERL) for finding in found]
    assert [finding.key for finding in found if finding.level not in ("ok", "skip")] == ["verl"]


def test_a_part_that_differs_is_named_and_verl_is_asked_nothing_more(tried, toy, monkeypatch):
    table(monkeypatch, rpg__verl_plugin__policy_loss=ABSENT)
    asked = {check.name: found for check, found in preflight.ask(run_of(toy), ["verl"])}
    assert list(asked) == ["verl's parts"]
    assert [str(finding) for finding in asked["verl's parts"]] == [
        "verl.trainer.ppo.core_algos.agg_loss_of_old: is not there: verl.trainer.ppo.core_algos has no "
        "agg_loss_of_old; it sums (rpg/verl_plugin/policy_loss.py)"
    ]


def test_a_verl_that_does_not_take_the_plugin_is_an_error(tried, toy, monkeypatch):
    def register():
        raise AttributeError("no POLICY_LOSS_REGISTRY")

    monkeypatch.setattr(rpg.verl_plugin, "register", register)
    table(monkeypatch)
    (finding,) = verl_version.verl_parts(run_of(toy))
    assert finding.level == "error"
    assert str(finding) == "rpg.verl_plugin: cannot register with verl (AttributeError: no POLICY_LOSS_REGISTRY)"


@pytest.mark.slow
def test_verl_is_imported_with_the_platform_of_the_run(tried, toy):
    """In a process of its own: as for a checkout whose entry point is not installed, verl without the plugin."""
    program = """
import os, sys
os.environ["VERL_USE_EXTERNAL_PLUGINS"] = "none"
from rpg.checks.finding import Run
from rpg.checks.verl_version import verl_parts
from rpg.verl_plugin import version
version.installed = lambda: "0.10.0"
actor = {"optim": {}}
run = Run({"trainer": {"device": "cpu"}, "rpg": {"reference": {"mode": "old"}}, "actor_rollout_ref": {"actor": actor}})
print(*verl_parts(run), sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "cannot be imported" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("user", "more", "level"),
    [
        ("rpg__verl_plugin__cpu", [], "error"),
        ("rpg__verl_plugin__cpu", ["trainer.device=cuda"], "warning"),
        ("rpg__verl_plugin__worker", [], "error"),
        ("rpg__verl_plugin__reference", [], "warning"),
        ("rpg__verl_plugin__reference", ["reference=fixed"], "error"),
        ("rpg__verl_plugin__reward_worker", [], "error"),
        ("rpg__verl_plugin__rollout", ["actor_rollout_ref.model.external_lib=null"], "warning"),
        ("rpg__verl_plugin__rollout_classes", [], "error"),
        ("rpg__preload__server", ["rpg.preload.late=[]"], "warning"),
        ("rpg__results__samples", [], "warning"),
        ("recipe__rpg__run", [], "error"),
    ],
)
def test_what_a_run_does_not_use_does_not_stop_it(tried, toy, monkeypatch, user, more, level):
    table(monkeypatch, **{user: ABSENT})
    (finding,) = verl_version.parts(run_of(toy, *more))
    assert finding.level == level


def test_a_key_that_verl_no_longer_has(tried, monkeypatch):
    theirs = Run({**verl_own.defaults(), "trainer": {**verl_own.defaults()["trainer"]}})
    del theirs.config["trainer"]["test_freq"]
    monkeypatch.setattr(verl_own, "defaults", lambda: theirs.config)
    (finding,) = verl_version.keys(OTHER)
    assert str(finding) == "trainer.test_freq: is no key of verl 0.10.0's configuration; nobody would read it"


def test_every_name_of_a_user_is_one_of_the_tables():
    users = [*parts_of_verl.PARTS, *parts_of_ray_and_vllm.PARTS]
    assert not [name for name in verl_version.USED_BY if not any(user.startswith(name) for user in users)]


def test_the_cheap_question_imports_no_verl():
    program = (
        "import sys; from rpg.checks.verl_version import verl_version as ask; list(ask(None)); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"verl", "torch", "ray", "vllm"} & set(done.stdout.split())
