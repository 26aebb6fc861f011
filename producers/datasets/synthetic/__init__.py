"""A generated world: users of known taste, films whose titles say their genre, visits."""

from producers.datasets.synthetic.titles import GENRES
from producers.datasets.synthetic.world import World, generate, probabilities

__all__ = ["GENRES", "World", "generate", "probabilities"]
