"""White-box audits of noise that is added in one place: what an attacker who knows all else sees.

    likelihood     the attacker's statistic, and what theory gives for it
    bounds         from statistics of both worlds to a lower bound of epsilon; findings
    noise_law      the noise itself against its exact law
    campaign_run   one campaign through devices' and parties' own code, with one person or without
    campaign       many of them, judged
    event_runs     one training with a rating event, or without
    trainers       many of them, judged
    linear         one rating from published scores, in closed form
    linear_runs    the same against every mechanism of items that go together

The attacker is given what no real one has: every other person's ratings, the candidate's data, the
noise of a party that is curious. A measurement is no guarantee: a lower bound above the claim shows
that a claim is false, one below it shows nothing.
"""
