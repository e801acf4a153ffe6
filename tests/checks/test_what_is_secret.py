"""What counts as a secret, and what does not."""

import pytest

from rpg.checks import secrets


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("WANDB_API_KEY", True),
        ("HF_TOKEN", True),
        ("HUGGING_FACE_HUB_TOKEN", True),
        ("RAY_AUTH_TOKEN", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("MLFLOW_TRACKING_PASSWORD", True),
        ("hf_token", True),
        ("TOKEN", True),
        ("_redis_password", True),
        ("RAY_AUTH_TOKEN_PATH", False),
        ("RAY_AUTH_MODE", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("MONKEY", False),
        ("OMP_NUM_THREADS", False),
    ],
)
def test_names(name, secret):
    assert secrets.names_a_secret(name) is secret


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("https://user:token@host/path", "https://***@host/path"),
        ("https://token@host", "https://***@host"),
        ("http://u:p@ss@host:8265/x?y=a@b", "http://***@host:8265/x?y=a@b"),
        ("hdfs://user:password@host/data", "hdfs://***@host/data"),
        ("a https://x:y@h and https://z@h2", "a https://***@h and https://***@h2"),
    ],
)
def test_addresses_with_a_login(text, without):
    assert secrets.has_login(text)
    assert secrets.without_login(text) == without


@pytest.mark.parametrize(
    "text",
    [
        "https://host/path",
        "http://10.0.0.1:8265",
        "hdfs://user@host/data",
        "https://host/a:b@c",
        "me@host",
        "pkg://a.b",
    ],
)
def test_addresses_without(text):
    assert not secrets.has_login(text)
    assert secrets.without_login(text) == text


def test_short_values_are_none():
    held = {"HF_TOKEN": "hf_0123456789", "SORT_KEY": "name", "PATH": "/usr/bin:/usr/local/bin"}
    assert secrets.in_environment(held) == {"HF_TOKEN": "hf_0123456789"}
