"""Names of metrics in a run's log, metrics.jsonl: verl's, as commands and the progress line look for them."""

import re

# the training reward: over all groups, logged by runs with filter_groups only; over the groups of the batch
ALL_GROUPS, BATCH = ("critic/score_before_filtering/mean", "critic/score/mean")
LEFT_OUT_OF_TRAINING = "training/left_out_responses"  # without a reward, of a step's batch
LEFT_OUT_OF_VALIDATION = "validation/left_out_responses"  # accuracies count them as wrong
# a batch in which all are equal teaches nothing
SCORES, ADVANTAGES = ("critic/score/{}", "critic/advantages/{}")  # max, min
MASS = "training/off_policy/mass"  # of pi_theta on the tokens that rollouts can sample
MASS_ERROR = "training/off_policy/mass_error"  # its standard error
OF_VALIDATIONS = ("val-core/", "val-aux/", "validation/")  # prefixes of the metrics of a validation
VALIDATED = re.compile(r"val-core/(?P<data_source>.+)/(?P<variable>acc|reward)/mean@\d+", re.DOTALL)


def is_validation(metric: str) -> bool:
    """Return whether a metric is a mean over a validation: of accuracies, or of scores if no accuracy is logged."""
    return VALIDATED.fullmatch(metric) is not None
