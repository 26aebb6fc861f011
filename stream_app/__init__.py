"""The server: contract, mechanisms, learners, log, agents and command line of murmurec."""

__version__ = "0.2.0"
