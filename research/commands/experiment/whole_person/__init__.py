"""Accuracy against what a whole person has spent, for `murmurec experiment --preset whole-person`.

points     what is measured, and what a point is
measure    both panels over all splits
errors     RMSE of predicted ratings
lists      nDCG@10 of lists
figure     both panels as a picture
command    options, tables, files, progress
"""

from research.commands.experiment.whole_person.command import asked, run

__all__ = ["asked", "run"]
