"""The limit of a fit, ours or a peer's: of the standard library alone, for the peers' environment has nothing of ours."""

import resource


def limit_cpu(seconds: int) -> None:
    """Have the system end this process after so many CPU seconds, by SIGXCPU."""
    # The soft limit alone: past a hard one, which imports may have used up, comes a SIGKILL.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
