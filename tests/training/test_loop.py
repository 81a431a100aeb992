"""The one loop: steps, a deadline, an interrupt."""

import time

from tabsynth.training.loop import INTERRUPTED, TIME_LIMIT, Watch, run_steps


def test_all_steps_are_done_and_told():
    told, done = [], []
    watch = Watch(progress=lambda *args: told.append(args))
    assert run_steps("stage", 3, done.append, watch) == 3
    assert done == [0, 1, 2]
    assert told == [("stage", 1, 3), ("stage", 2, 3), ("stage", 3, 3)]
    assert watch.stopped is None


def test_an_early_stage_leaves_time_to_the_next():
    """Half of a second for the first stage: the second still has steps."""
    watch = Watch(deadline=time.monotonic() + 0.4)
    first = run_steps("first", 10**6, lambda i: time.sleep(0.01), watch, share=0.5)
    assert 0 < first < 10**6 and watch.stopped == TIME_LIMIT
    second = run_steps("second", 10**6, lambda i: time.sleep(0.01), watch)
    assert 0 < second < 10**6
    assert run_steps("third", 10, lambda i: None, watch) == 0


def test_an_interrupt_ends_this_stage_and_all_that_follow():
    def step(i: int) -> None:
        if i == 2:
            raise KeyboardInterrupt

    watch = Watch()
    assert run_steps("first", 5, step, watch) == 2
    assert watch.stopped == INTERRUPTED
    assert run_steps("second", 5, step, watch) == 0
