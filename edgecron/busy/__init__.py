"""How busy the coming week is: plan times counted by hour, without walking through them. Pure.

week      seven local days as stretches of an hour
shapes    how many plan times of triggers lie in each of them
tally     schedules summed up, one by one
"""
