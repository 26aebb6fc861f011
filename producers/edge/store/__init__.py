"""The one store of an edge.

store_tables  what it holds
database      SQLite or PostgreSQL: transactions, sentences for what goes wrong, one writer
book_log      the frames of a device journal as rows: `producers.journal` writes them
"""
