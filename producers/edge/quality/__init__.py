"""What the lists bring.

impressions    lists that were shown: written in batches, purged by age
model_figures  click-through, purchases and nDCG by model; the arm of a user, and arms compared
"""
