"""The metrics of a running gateway, as a scrape sees them."""

import re

from tests.support.gateway import Gateway

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
Samples = dict[tuple[str, frozenset[str]], float]


def metrics(gateway: Gateway) -> Samples:
    response = gateway.client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")
    return {
        (name, frozenset(re.findall(r'\w+="[^"]*"', labels))): float(value)
        for name, labels, value in _SAMPLE.findall(response.text)
    }


def sample(samples: Samples, name: str, **labels: object) -> float:
    return samples.get((name, frozenset(f'{k}="{v}"' for k, v in labels.items())), 0.0)


def all_of(samples: Samples, name: str) -> dict[frozenset[str], float]:
    """Every sample of a metric, by its labels."""
    return {labels: value for (found, labels), value in samples.items() if found == name}
