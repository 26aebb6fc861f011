"""The device's side of campaigns: one contribution to each stage, paid for once.

terms            what the device requires of a plan: pinned keys and scope, noise, kinds
history          kept ratings -> the vector of a stage
scope_index      rated keys -> ratings over the scope
mechanism        what a campaign costs the person, and the sealed boxes of a stage
stage_requests   what the journal is asked for: the debit, once an epoch, and the boxes
contributing     terms, debit and boxes in one durable record of the journal -> message
"""
