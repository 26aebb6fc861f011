"""Noisy sums of integer vectors: exact discrete Gaussian noise, and the cost of a campaign."""

from stream_app.privacy.gaussian.certificate import (
    CampaignCertificate,
    NoisySum,
    largest_square,
    least_variance,
)
from stream_app.privacy.gaussian.keyed_source import KeyedSource
from stream_app.privacy.gaussian.sampling import discrete_gaussian
