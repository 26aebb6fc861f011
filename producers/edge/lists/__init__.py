"""What the edge answers: lists, ranked here.

maker           lists for a user, a session or an item; popular and latest ones; reasons
wishes          what is asked of a list, and what a list is
stored_history  what a user has done, as a device's clean history
models          by the public table, the edge's own likes, popularity, time; renewed by a thread
newest_tables   the newest public table, read by a thread; its items at this site
own_feedback    statistics of the edge's own feedback, and of what is liked together
picking         which items a list may hold, and which it does
item_index      the numbers of items
"""
