"""What leaves the site, and what a user can ask about it.

    accounts --due--> clean ratings --> request --> journal of the book --> delivery --> recommender

accounts       which accounts are new, due, removed: statements on the store
book           one open book: enrolment, reports, contributions, withdrawal
ways_out       where all of it goes: the options, and the messages of all open books
reporter       the thread over the books that this edge could take, and its status
users          show, delete, export, list: what a person may ask of the site

Ratings are looked up here alone, and nothing leaves but through a journal. Where value is
protected, what is new is reported every few seconds: that an item was met is public then. Where
presence is protected, every account reports on its schedule, whatever it did
(`producers.daemon.schedule`). Campaigns follow their own schedule.
"""
