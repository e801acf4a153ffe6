"""What verl sees of RPG: policy losses, advantage estimators and, where asked for, a cpu platform and a queue."""


def register() -> None:
    """Register every loss name and estimator with verl in this process.

    Safe to call more than once. Raises ValueError when a name is already held by something else.
    """
    from rpg.verl_plugin import advantage, cpu, job_queue, policy_loss

    if cpu.requested():
        cpu.register()
    if job_queue.requested():
        job_queue.install()
    policy_loss.register()
    advantage.register()
