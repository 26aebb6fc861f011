"""The edge: many devices in one process at a site that knows its own users anyway.

    shop --plain events--> edge --sanitized reports or contributions--> recommender of anybody
         <--lists, ranked here from the clean histories and the public item side--

The site trusts the edge, and the edge alone: it holds clean histories, the accounts with their
budgets, and the key of all pseudonyms, in one store. What leaves it is what leaves a device.

store      the database: SQLite, or PostgreSQL under several edges; the journal's frames lie in it
events     plain events: decoded, idempotent, durable before the answer
reporting  what leaves: enrolment, reports, contributions, and what was sent
catalogue  the site's items, and filters over them
lists      what is answered: ranked here, by popularity, by time, for a session
quality    what the lists bring: impressions, clicks, comparison of models
http       the interface, its contract and its page
"""
