"""A thousand wrong or odd settings through the launch command, only ray.init replaced: refused, or meant.

Every one ends with exit code 2 and what is wrong, or reaches Ray; none with a traceback. What reaches Ray holds the
values that were asked for, and OmegaConf's own typed dataclasses, made of verl's fields, accept it.
"""

import collections
import dataclasses
import functools
import os
import shutil
import typing
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import MISSING, DictConfig, OmegaConf

from rpg.launching import start
from tests.checks.campaign import Setting, campaign
from tests.checks.conftest import make_toy, overrides

PARTS = 4  # of the whole campaign, so that they can run side by side
SIMPLE = (int, float, bool, str, int | None, float | None, str | None)
MOVED = ("trainer.default_local_dir", "trainer.experiment_name", "trainer.validation_data_dir")
RAY_INIT = "ray.init was reached"


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    return make_toy(tmp_path_factory.mktemp("template"))


@pytest.fixture
def attempt(template, tmp_path, monkeypatch, capfd):
    """Launch a setting in a toy directory of its own; exit code, what was said, and the configuration at ray.init."""
    import ray

    @functools.wraps(ray.init)  # one check asks for its arguments
    def reached(**kwargs):
        print(RAY_INIT)
        raise SystemExit(0)

    monkeypatch.setattr(ray, "init", reached)

    def launch(setting: Setting) -> tuple[int, str, DictConfig | None]:
        toy = tmp_path / "toy"
        shutil.rmtree(toy, ignore_errors=True)
        shutil.copytree(template, toy)
        setting.furnish(toy)
        before = dict(os.environ)
        os.environ.update({"VERL_PLATFORM": "cpu", "HOME": str(tmp_path), **setting.environment})
        os.environ.pop("RAY_ADDRESS", None)
        given = overrides(toy)
        for variable, key in (("TRAIN_FILE", "data.train_files"), ("TEST_FILE", "data.val_files"),
                              ("MODEL_PATH", "actor_rollout_ref.model.path"),
                              ("CKPTS_DIR", "trainer.default_local_dir")):  # fmt: skip
            if variable in setting.environment:  # else the override would win
                given = [text for text in given if not text.startswith(f"{key}=")]
        os.chdir(tmp_path)
        try:
            code = start.main([*given, "rpg.preload.late=[]", "rpg.console=full", *setting.overrides])
        finally:
            os.environ.clear()
            os.environ.update(before)
        said = capfd.readouterr()
        text = said.out + said.err
        if RAY_INIT not in text:
            return code, text, None
        (saved,) = tmp_path.rglob("config.yaml")
        config = OmegaConf.load(saved)
        saved.unlink()
        assert isinstance(config, DictConfig)
        return code, text, config

    home = os.getcwd()
    yield launch
    os.chdir(home)


def run_campaign(attempt, settings: list[Setting]) -> None:
    wrong, counts = [], collections.Counter()
    for setting in settings:
        try:
            code, text, config = attempt(setting)
        except BaseException as error:  # noqa: BLE001  # every way to end is looked at
            wrong.append(f"{setting}: {type(error).__name__}: {error}")
            continue
        counts[setting.kind, "refused" if code == 2 else "accepted" if config else "printed"] += 1
        if "Traceback (most recent call last)" in text:
            wrong.append(f"{setting}: a traceback\n{text[-600:]}")
        elif code == 2 and "error" not in text:
            wrong.append(f"{setting}: refused without a word")
        elif code not in (0, 2) or (code == 0 and config is None and not setting.environment.get("DRY_RUN")):
            wrong.append(f"{setting}: exit code {code}\n{text[-600:]}")
        elif setting.refused and code != 2:
            wrong.append(f"{setting}: accepted")
        elif config is not None:
            wrong += [f"{setting}: {complaint}" for complaint in second_opinion(setting, config)]
    for (kind, verdict), count in sorted(counts.items()):
        print(f"{kind}: {count} {verdict}")
    assert not wrong, f"{len(wrong)} of {len(settings)}:\n" + "\n".join(wrong)


def second_opinion(setting: Setting, config: DictConfig) -> list[str]:
    """What an accepted setting does not say, or verl's field types do not take."""
    complaints = []
    for text in setting.overrides:
        override = OverridesParser.create().parse_overrides([text])[0]
        key = override.key_or_group
        if override.is_delete() or key in MOVED or OmegaConf.select(config, key) is None:
            continue
        said, held = override.value(), OmegaConf.select(config, key)
        held = OmegaConf.to_container(held) if OmegaConf.is_config(held) else held
        if "${" not in text and held != said:
            complaints.append(f"{key} holds {held!r}")
    for key in (
        "actor",
        "actor.optim",
        "actor.fsdp_config",
        "actor.policy_loss",
        "rollout",
        "rollout.val_kwargs",
        "model",
    ):
        section = OmegaConf.select(config, f"actor_rollout_ref.{key}")
        complaints += [f"actor_rollout_ref.{key}: {error}" for error in _typed(section)]
    return complaints


def _typed(section: DictConfig) -> list[str]:
    """OmegaConf's opinion of the simple fields of a section, by the annotations of verl's dataclass."""
    from hydra.utils import get_class

    hints = typing.get_type_hints(get_class(section["_target_"]))
    errors = []
    for name, value in section.items():
        if hints.get(name) not in SIMPLE or value is None:
            continue
        made = dataclasses.make_dataclass("Field", [(str(name), hints[name], MISSING)])
        try:
            OmegaConf.merge(OmegaConf.structured(made), {name: value})
        except ValueError as error:
            errors.append(str(error).splitlines()[0])
    return errors


@pytest.mark.slow
def test_nothing_odd_reaches_ray(attempt):
    code, text, config = attempt(Setting("none"))
    assert (code, config is not None) == (0, True), text


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_the_whole_campaign(attempt, part):
    settings = campaign()
    assert len(settings) >= 1000
    run_campaign(attempt, settings[part::PARTS])
