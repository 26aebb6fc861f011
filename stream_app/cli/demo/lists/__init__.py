"""The lists of a demo, as only a demo can judge them: it simulates the people.

people        what they like, and how lists fit that
quality       three lists of each tested person, compared
privacy_off   lists from the true ratings
story         all of it in plain words
page_facts    the same for the page
"""
