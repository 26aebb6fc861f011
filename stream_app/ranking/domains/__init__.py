"""From one domain to another (Guerraoui et al. 2017): what links films to books, and a profile of
books made from rated films; numpy alone, so that a device makes its own.

similarity_table  the public table, made of noisy sums (noised) and kept as bytes (table_bytes)
alter_ego         a profile in another domain from the links of that table, and its predictions
links             the strongest links from items to items
"""
