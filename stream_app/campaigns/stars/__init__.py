"""*Stars*: the device's side of the stages from which ratings can be predicted.

side            what is public so far                 contributions   what a device sends
fold_in         a person's own place in it            recipe          the stages and their shares
"""
