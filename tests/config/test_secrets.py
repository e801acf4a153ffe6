"""Secrets in a configuration are refused without being shown."""

import pytest

from rpg import secrets
from rpg.config.compose import compose
from rpg.diagnostics import Refused
from rpg.run import start
from tests.builders.toy_run import overrides

TOKEN = "planted-0123456789abcdef"
VARIABLES = "ray_kwargs.ray_init.runtime_env"


@pytest.mark.parametrize(
    ("override", "key"),
    [
        (f"+rpg.env.WANDB_API_KEY={TOKEN}", "rpg.env.WANDB_API_KEY"),
        ("+rpg.env.HF_TOKEN=null", "rpg.env.HF_TOKEN"),  # the environment's value would take its place
        (f"+ray_kwargs.ray_init._redis_password={TOKEN}", "ray_kwargs.ray_init._redis_password"),
        (f"+{VARIABLES}.py_modules=['https://me:{TOKEN}@host/a.zip']", f"{VARIABLES}.py_modules.0"),
        (f"trainer.default_hdfs_dir='hdfs://me:{TOKEN}@host/x'", "trainer.default_hdfs_dir"),
        (f"+rpg.env.HF_ENDPOINT='https://{TOKEN}@host'", "rpg.env.HF_ENDPOINT"),
        ("trainer.project_name=x-${oc.env:HF_TOKEN}", "trainer.project_name"),
        ("+rpg.env.HF_ENDPOINT='https://host'", None),
        ("+rpg.env.TOKENIZERS_PARALLELISM='false'", None),
    ],
)
def test_a_secret_in_the_configuration(toy, override, key, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    if key is None:
        compose(None, [*overrides(toy), override])
        return
    with pytest.raises(Refused) as refusal:
        compose(None, [*overrides(toy), override])
    assert key in [diagnostic.key for diagnostic in refusal.value.diagnostics]  # another key may repeat it
    assert TOKEN not in str(refusal.value)


@pytest.mark.parametrize("dry", ["", "1"])
def test_a_secret_is_refused_before_anything_shows_it(toy, capfd, monkeypatch, dry):
    """Another check's message would show rpg.env, and the output of dry runs is stored in files."""
    monkeypatch.setenv("DRY_RUN", dry)
    assert start.start(None, [*overrides(toy), f"+rpg.env.HF_TOKEN={TOKEN}", "+rpg.env.a-b=x"]) == 2
    out, err = capfd.readouterr()
    assert "rpg.env.HF_TOKEN" in err
    assert TOKEN not in out + err
    assert not (toy / "run").exists()


SECRET = ["WANDB_API_KEY", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "MLFLOW_TRACKING_PASSWORD", "hf_token",
          "TOKEN", "_redis_password"]  # fmt: skip
OTHERS = ["RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE", "TOKENIZERS_PARALLELISM", "MONKEY", "OMP_NUM_THREADS"]


def test_names_of_secrets():
    assert [name for name in [*SECRET, *OTHERS] if secrets.names_a_secret(name)] == SECRET


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("https://user:token@host/path", "https://***@host/path"),
        ("https://token@host", "https://***@host"),
        ("http://u:p@ss@host:8265/x?y=a@b", "http://***@host:8265/x?y=a@b"),
        ("a https://x:y@h and https://z@h2", "a https://***@h and https://***@h2"),
        *((text, text) for text in ("https://host/path", "http://10.0.0.1:8265", "hdfs://user@host/data",
                                    "https://host/a:b@c", "me@host", "pkg://a.b")),
    ],
)  # fmt: skip
def test_addresses_with_a_login(text, without):
    assert secrets.has_login(text) is (text != without)
    assert secrets.without_login(text) == without


def test_short_values_are_no_secrets(bare_environment, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789")
    monkeypatch.setenv("SORT_KEY", "name")
    assert secrets.in_environment() == {"HF_TOKEN": "hf_0123456789"}
