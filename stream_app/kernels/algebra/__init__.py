"""Linear algebra with one order of operations: the same bits on every machine, without BLAS."""
