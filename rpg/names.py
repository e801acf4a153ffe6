"""The names that settings, losses and scripts share, without torch: a dry run reads them in milliseconds."""

from typing import Any

DIVERGENCES = ("fkl", "rkl", "ufkl", "urkl")  # the paper's four, in its order
REVERSE = ("rkl", "urkl")  # their expectation is under pi_theta, so that a token moves the KL of later tokens
KL_SCOPES = ("token", "response")  # whether D is the KL of next tokens or of responses; the first is the default
# Limit of the log of the product of rho over a prefix, in runs (kl_scope "response"): a larger one has less bias and
# more noise.
RHO_BOUND = 2.0
CLIP_SCOPES = ("reward", "regularized", "hard", "none")  # what the clip of a differentiable loss acts on
CLIP_BRANCHES = ("psi", "advantage")  # what selects the two cases of RPG-Style Clip

# Forms of a loss with divergence d: estimator, clip. clip_scope shapes the differentiable "dual", clip_branch "ppo".
# The paper writes RPG-Style Clip in five ways: Algorithm 1 (no form), Appendix G.2 (clip_scope "regularized"), and the
# three below; Algorithm 2 is the launch scripts'.
FORMS = {
    "rpg_{d}": ("differentiable", "dual"),
    "rpg_rf_{d}": ("reinforce", "none"),
    "rpg_rf_{d}_clip_dual": ("reinforce", "dual"),  # Eq. 4.1
    "rpg_rf_{d}_clip_hard": ("reinforce", "hard"),  # Remark F.2
    "rpg_rf_{d}_clip_ppo": ("reinforce", "ppo"),  # Algorithm 2
}
# The twenty losses: name -> divergence, estimator, clip. A name is looked up here and never taken apart.
LOSSES = {form.format(d=d): (d, *parts) for form, parts in FORMS.items() for d in DIVERGENCES}

ADVANTAGES = ("rpg", "rpg_batchmean")  # advantage estimators that the plugin adds to verl's
PI_OLD = ("recomputed", "behavior", "decoupled")  # choices of pi_old for rollouts older than the batch
MOVING_REFERENCES = ("every_k", "kl_target")  # pi_ref is a model of its own that is renewed
REFERENCES = ("old", "fixed", *MOVING_REFERENCES)

# Entries of a model's text configuration with which transformers changes the logits behind the output layer; null and 1
# change nothing. tests/verl_plugin/test_fused_head.py compares the list with transformers' models.
LOGIT_CHANGES = (
    "final_logit_softcapping", "lm_head_multiplier", "logit_scale", "logits_scaling", "logits_soft_cap",
    "output_logit_soft_cap",
)  # fmt: skip
MASKS_LOGITS = ("chameleon",)  # model types that set the logits of image tokens to the lowest number


def logit_changes(config: Any) -> list[str]:
    """Return what a model of this configuration (of transformers) does to its logits behind the output layer."""
    text = config.get_text_config()
    changes = [name for name in LOGIT_CHANGES if getattr(text, name, None) not in (None, 1)]
    return changes + (["the mask of image tokens"] if config.model_type in MASKS_LOGITS else [])
