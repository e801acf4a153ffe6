"""Secrets in a configuration are refused without being shown; code that comes with a model is told of."""

import pytest

from rpg.checks import preflight, secrets
from rpg.launching import start
from tests.checks.cases import M
from tests.checks.conftest import overrides, refusal, run_of

TOKEN = "planted-0123456789abcdef"
VARIABLES = "ray_kwargs.ray_init.runtime_env"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "key"),
    [
        (f"+rpg.env.WANDB_API_KEY={TOKEN}", "rpg.env.WANDB_API_KEY"),
        (f"+rpg.env.hf_token={TOKEN}", "rpg.env.hf_token"),
        ("+rpg.env.HF_TOKEN=null", "rpg.env.HF_TOKEN"),  # the environment's value would take its place
        (f"+rpg.env={{HF_TOKEN:{TOKEN}}}", "rpg.env.HF_TOKEN"),
        (f"+{VARIABLES}.env_vars.RAY_AUTH_TOKEN={TOKEN}", f"{VARIABLES}.env_vars.RAY_AUTH_TOKEN"),
        (f"+ray_kwargs.ray_init._redis_password={TOKEN}", "ray_kwargs.ray_init._redis_password"),
        (f"+{VARIABLES}.py_modules=['https://me:{TOKEN}@host/a.zip']", f"{VARIABLES}.py_modules.0"),
        (f"trainer.default_hdfs_dir='hdfs://me:{TOKEN}@host/x'", "trainer.default_hdfs_dir"),
        (f"+rpg.env.HF_ENDPOINT='https://{TOKEN}@host'", "rpg.env.HF_ENDPOINT"),
        ("trainer.project_name=x-${oc.env:HF_TOKEN}", "trainer.project_name"),
        ("+rpg.env.MINE='${oc.env:HF_TOKEN}'", "rpg.env.MINE"),
        ("+rpg.env.HF_ENDPOINT='https://host'", None),
        ("+rpg.env.TOKENIZERS_PARALLELISM='false'", None),
        ("data.prompt_key=prompt", None),
    ],
)
def test_a_secret_in_the_configuration(toy, override, key, monkeypatch, capfd):
    """A dry run is refused as well: what it prints is kept in files."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("DRY_RUN", "1")
    code = start.main([*overrides(toy), override])
    out, err = capfd.readouterr()
    assert TOKEN not in out + err
    errors = [line.removeprefix("error: ") for line in err.splitlines() if line.startswith("error: ")]
    assert code == (2 if key else 0)
    assert bool(errors) == bool(key)
    assert all("would be written down" in line for line in errors)
    assert key is None or any(line.startswith(f"{key}: ") for line in errors)


def test_a_secret_is_refused_before_anything_shows_it(toy, capfd):
    """Another check's message would show the whole of rpg.env."""
    assert start.main([*overrides(toy), f"+rpg.env.HF_TOKEN={TOKEN}", "+rpg.env.a-b=x"]) == 2
    out, err = capfd.readouterr()
    assert TOKEN not in out + err
    assert not (toy / "run").exists()


def test_what_is_set_wins_over_rpg_env(toy, monkeypatch):
    run = run_of(toy, "+rpg.env.HF_ENDPOINT='https://host'")
    assert not list(secrets.secrets(run))
    monkeypatch.setenv("HF_ENDPOINT", f"https://{TOKEN}@host")
    text = refusal(run)
    assert text.startswith("rpg.env.HF_ENDPOINT: has a login in its address")
    assert TOKEN not in text


@pytest.mark.parametrize("odd", [None, "text", 3, [], [1]])
def test_odd_sections_are_left_to_the_other_checks(toy, odd):
    run = run_of(toy)
    run.config["rpg"]["env"] = odd
    assert not list(secrets.secrets(run))


def test_remote_code(toy):
    assert not list(secrets.remote_code(run_of(toy)))
    run = run_of(toy, f"+{M}.trust_remote_code=true", "data.trust_remote_code=true")
    warnings = [finding for finding in preflight.refuse(run, ["cheap"]) if "trust_remote_code" in finding.key]
    assert {finding.key for finding in warnings} == {f"{M}.trust_remote_code", "data.trust_remote_code"}
    assert all("is run in the driver and in every worker" in str(finding) for finding in warnings)
