"""What tests see as the operating system's entropy: the same in every run, and new bits at every call."""

import os
import secrets

import numpy as np
import pytest
from entropy import ENTROPY, WORD

from tabsynth.privacy.noise.samplers import Keystream

pytestmark = pytest.mark.skipif(WORD == "system", reason="the entropy is the system's own")


def drawn() -> list[object]:
    words = np.random.SeedSequence().generate_state(4).tolist()
    return [Keystream().bytes(32), Keystream().bytes(32), secrets.token_hex(8), words]


def test_bits_follow_from_the_name_and_do_not_repeat() -> None:
    results = []
    for name in ("a", "b", "a"):
        with ENTROPY.of(name):
            results.append(drawn())
    assert results[0] == results[2] and results[0][0] != results[0][1]
    assert all(one != other for one, other in zip(results[0], results[1], strict=True))


def test_a_name_within_another_leaves_its_stream_where_it_was() -> None:
    with ENTROPY.of("a"):
        whole = [os.urandom(8) for _ in range(2)]
    with ENTROPY.of("a"):
        first = os.urandom(8)
        with ENTROPY.of("b"):
            os.urandom(8)
        assert [first, os.urandom(8)] == whole


def test_a_test_has_a_stream_of_its_own(request: pytest.FixtureRequest) -> None:
    assert ENTROPY.name == request.node.nodeid
    assert os.urandom(16) != ENTROPY.system(16) != ENTROPY.system(16)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_reads_the_systems() -> None:
    results = []
    for _ in range(2):
        near, far = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(far, os.urandom(16))
            os._exit(0)
        os.waitpid(child, 0)
        results.append(os.read(near, 16))
        os.close(near)
        os.close(far)
    assert results[0] != results[1] and os.urandom(16) not in results
