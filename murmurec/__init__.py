"""murmurec: recommendations from ratings that the server never sees.

The public names; everything else may change between versions.

    Device           one person's device: sanitizes ratings, pays for them, publishes them
    Recommender      a recommender in this process: fit, predict, recommend, similar; no Kafka
    evaluate         how well a model predicts ratings that were sanitized with a mechanism
    evaluate_ranking how good its lists are, beside popularity and other baselines
    experiment       both for a grid of models, mechanisms, splits and seeds, row by row
    mechanisms       the mechanisms for ratings, by id or by class
    LocalRecommender ranks on the device, from a public table and a clean history
    Recommendations  asks a running deployment for recommendations over Kafka
    Edge             asks a site's edge (`murmurec edge`), with plain events and ids of the site
    Connection       address of a Kafka cluster with properties for TLS and passwords

A device install (`pip install murmurec`) lacks what `Recommender` and the evaluations need: without
the extra `server` they raise ImportError with the command that installs it.

>>> import murmurec
>>> murmurec.mechanisms.parse("rr:5:2").epsilon
Fraction(2, 1)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stream_app import __version__

if TYPE_CHECKING:
    from consumers.recommendations import Recommendations
    from consumers.site_edge import Edge
    from murmurec import mechanisms
    from murmurec.device import Device
    from murmurec.evaluation import evaluate, experiment
    from murmurec.ranking import evaluate_ranking
    from murmurec.recommender import Recommender
    from producers.ranking import LocalRecommender
    from stream_app.kafka.clients import Connection

__all__ = [
    "Connection",
    "Device",
    "Edge",
    "LocalRecommender",
    "Recommendations",
    "Recommender",
    "__version__",
    "evaluate",
    "evaluate_ranking",
    "experiment",
    "mechanisms",
]

# Loaded at first use: a device has no numba, and `import murmurec` stays fast.
_HOMES = {
    "Connection": "stream_app.kafka.clients",
    "Device": "murmurec.device",
    "Edge": "consumers.site_edge",
    "LocalRecommender": "producers.ranking",
    "Recommendations": "consumers.recommendations",
    "Recommender": "murmurec.recommender",
    "evaluate": "murmurec.evaluation",
    "evaluate_ranking": "murmurec.ranking",
    "experiment": "murmurec.evaluation",
}


def __getattr__(name: str) -> Any:
    if name == "mechanisms":
        return import_module("murmurec.mechanisms")
    if name not in _HOMES:
        raise AttributeError(f"module 'murmurec' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in ("numba", "llvmlite"):
            raise
        raise ImportError(
            f"murmurec.{name} needs numba, which a device install lacks: "
            "pip install 'murmurec[server]'"
        ) from None


def __dir__() -> list[str]:
    return sorted(__all__)
