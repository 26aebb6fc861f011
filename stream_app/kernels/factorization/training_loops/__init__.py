"""Training loops over a batch, one for each layout of the vectors: test, then learn, in order.

`blocked_loop(D, K)`, `literal_loop(D, K)`, `hybrid_loop(D)` and `dense_loop(D)` return compiled
functions with the sizes built in. All take the columns of a batch (m,), the channel tables and the
constants, and write predicted, error and refused (m,), and for each decoded report its predictive
probability (m,). `priors` is read where the channel protects presence and may be empty if none
does. Where learn[n] is False or event n is refused, nothing is written to the state. An event is
refused when its squared error exceeds `clip`, or when its channel or report is outside the tables.
Writes are marked beforehand in the `..._pages` of their array (`dirty_pages.py`), except for the
mean, which the caller marks before, and new keys of dense rows, which lie behind all that is in
use: the caller sees how many there are.

The arithmetic of a step is in `kalman_update.py`, as straight lines that are inlined. What reads
arrays behind a branch stays in each loop, and so do the rows: numba counts references to arrays
that pass through an inlined branch or through a tuple. One loop over accessors of the rows gives
the same bits in 54 ns an event instead of 45, and in 160 ns where the accessors are called.
"""

AHEAD = 16  # events hashed and prefetched in one pass: few enough for the first cache
COLUMNS_AHEAD = 128  # events whose keys are asked for before they are hashed
MARKS_CHECKED = 4096  # events between two looks at whether there is still anything to mark
