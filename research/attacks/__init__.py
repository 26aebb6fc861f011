"""Reconstruction of single profiles, BLIP and JLT, by an attacker with public knowledge alone.

knowledge    what the attacker knows beforehand: the catalogue, shares of items, sizes
decoder      the contract of the decoders of a mechanism
bloom        decoders of a BLIP
projection   decoders of a JLT
attacks      the table of attacks, from popularity to joint decoding
measures     how much of a profile an attack finds
trials       every attack on released profiles, beside the claimed epsilon

Source: Balu 2016, sections 3.4 and 3.5.
"""
