"""The best items for a user: an index over item vectors and biases, exact or by qoLSH codes.

    score(row) = bias[row] + q[row] . p

The user's own bias and the mean move all items alike and stay out of the order.
"""

from stream_app.models.retrieval.auto_index import AutoIndex
from stream_app.models.retrieval.exact_index import ExactIndex
from stream_app.models.retrieval.index import Index, RowFilter, recall
from stream_app.models.retrieval.index_choice import INDEXES, IndexSpec, build, check_index
from stream_app.models.retrieval.pca_index import PCAIndex
from stream_app.models.retrieval.qolsh_index import QoLSHIndex
from stream_app.models.retrieval.service_level import ServiceLevel
