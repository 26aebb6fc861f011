"""Ways to encode directions as bits, behind one interface: what qoLSH is compared with.

anti_sparse    signs of the representation of least magnitude
exhaustive     the best of all codes, up to 16 bits
methods        every coder by name
"""
