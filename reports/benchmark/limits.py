"""The CPU limit of a fit. It needs the standard library alone, because the environments of peers have no tabsynth."""

import resource


def limit_cpu(seconds: int) -> None:
    """Have the system end this process after so many CPU seconds, by SIGXCPU."""
    # The soft limit alone: past a hard one, which imports may have used up, comes a SIGKILL.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
