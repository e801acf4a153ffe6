"""Secrets in a configuration are refused without being shown."""

import pytest

from rpg import secrets
from rpg.run import start
from tests.builders.toy_run import overrides, run_config

TOKEN = "planted-0123456789abcdef"
VARIABLES = "ray_kwargs.ray_init.runtime_env"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"rpg.env": {"hf_token": TOKEN, "RAY_AUTH_TOKEN_PATH": "x", "MONKEY": "x"}}, "rpg.env.hf_token"),
        ({"ray_kwargs.ray_init._redis_password": TOKEN}, "ray_kwargs.ray_init._redis_password"),
        ({f"{VARIABLES}.py_modules": [f"https://me:{TOKEN}@host/a.zip"]}, f"{VARIABLES}.py_modules.0"),
        ({"trainer.default_hdfs_dir": f"hdfs://me:{TOKEN}@host/x"}, "trainer.default_hdfs_dir"),
        ({"rpg.env": {"HF_ENDPOINT": f"https://{TOKEN}@host"}}, "rpg.env.HF_ENDPOINT"),
    ],
)
def test_a_secret_in_the_configuration(changes, key):
    (found,) = secrets.in_configuration(run_config(changes).config)
    assert found.key == key
    assert TOKEN not in str(found)


def test_a_secret_is_refused_before_anything_shows_it(toy, capfd, monkeypatch):
    """Another check's message would show rpg.env, and the output of dry runs is stored in files."""
    monkeypatch.setenv("DRY_RUN", "1")
    assert start.start(None, [*overrides(toy), f"+rpg.env.HF_TOKEN={TOKEN}", "+rpg.env.a-b=x"]) == 2
    out, err = capfd.readouterr()
    assert "rpg.env.HF_TOKEN" in err
    assert TOKEN not in out + err
    assert not (toy / "run").exists()


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
