"""The page of GANs under a unit is what its results make."""

import json


def test_page_is_what_the_results_make(modules_of):
    with modules_of("units") as modules:
        gans = modules["gan_units"]
        results = json.loads(gans.RESULTS.read_text())
        assert gans.page(results) == gans.PAGE.read_text()
