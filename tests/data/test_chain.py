"""The task of several steps: solutions of both kinds are right, and fit where the configuration says they do."""

import pytest

from rpg.data import generated
from rpg.launching.compose import compose_config
from rpg.rewards import compute_score
from rpg.toy import chain, model
from tests.gym_library import needs_library

pytestmark = needs_library


@pytest.fixture(scope="module")
def problems():
    return generated.draw(chain.TASK, chain.SETTINGS, chain.SEED, test=0, train=64)


def test_terms_have_their_signs():
    assert chain.terms_of("State the final answer to the following arithmetic problem: 0 - 4 + 8 - 7 =") == [
        0,
        -4,
        8,
        -7,
    ]


def test_every_solution_is_right_and_half_of_them_are_worked_out(problems):
    texts = [chain.solution(problem) for problem in problems]
    for problem, text in zip(problems, texts, strict=True):
        assert compute_score(problem.data_source, text, problem.ground_truth)["acc"] == 1, (problem.text, text)
    assert 0.3 < sum("=" in text for text in texts) / len(texts) < 0.7


def test_prompts_and_solutions_fit(problems):
    settings = compose_config(["profile=cpu", "dataset=chain", "model=chain", "trainer.experiment_name=t"]).data
    tokenizer = model.build_tokenizer([model.format_prompt(problem.text) for problem in problems], 400)
    assert max(len(model.encode_prompt(tokenizer, p.text)) for p in problems) <= settings.max_prompt_length
    longest = max(len(tokenizer.encode(chain.solution(problem))) for problem in problems)
    assert longest < settings.max_response_length
    assert chain.MODEL.max_response == settings.max_response_length


def test_half_a_model_is_built_again_and_a_whole_one_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # which the building sets, and nothing takes back
    built = []
    monkeypatch.setattr(chain, "build_trained", lambda out, *arguments: built.append(out))
    monkeypatch.setattr(chain, "TRAIN", 8)
    monkeypatch.setattr(chain, "TEST", 4)
    out = tmp_path / "model"
    out.mkdir()
    (out / "config.json").write_text("{}")
    (out / "model.safetensors").write_text("weights")
    chain.prepare(tmp_path)
    assert built == [out]
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (out / name).write_text("{}")
    chain.prepare(tmp_path)
    assert built == [out]
