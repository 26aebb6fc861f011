"""The device as a program that runs: it takes ratings, keeps them, and reports at its moments.

    file, stdin --lines--> kept ratings (on this device) --looked up--+
                                                                      v
    clock --moment of an account--> cells that are due --> journal --> delivery --> broker

schedule    when each account reports: a function of pseudonym and epoch
cells       on what it reports: a function of the scope and of the epochs since it enrolled
kept        the ratings that wait, in the file of clean ratings beside the journal
sources     where lines come from: a watched file, standard input
contributing   when each account takes part in a campaign, and with what
delivery    the journal's messages to a broker that may be away
conditions  what is wrong for a while, in sentences
runner      the loop over all of them

Number, sizes, moments and keys of messages under a mechanism that protects presence are a function
of the enrolled accounts, their budgets, the scope and the time during which the program ran. No
module but `kept` knows what was rated, and no module reads it before the cells are chosen.
"""
