"""Epsilons of dp-accounting, as a table: the library itself brings scipy and older attrs along."""
