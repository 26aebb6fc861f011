"""Attacks on whole campaigns and on trainers: 1,000 + 1,000 runs each, and the planted faults.

Campaigns at a whole-person epsilon of 2, delta 1e-6, of four people over
twelve items, through devices, boxes, parties and learning as they are live; the attacker knows all
but whether one person took part. Trainers at epsilon 2 for one rating event. Noise from the
operating system.
"""

from __future__ import annotations

from fractions import Fraction

from research.audits.campaign import CampaignAudit, Subject, audit, crowd
from research.audits.campaign_run import Code
from research.audits.trainers import audit_trainer
from research.trainers import TRAINERS
from stream_app.campaigns.planning import Outline, plan
from stream_app.privacy.randomness import SystemSource
from tests.benchmarks.figure import Figure
from tests.research.audits.test_campaign_audit import FAULTS
from tests.research.audits.test_trainer_audit import SPARSE, subject

RUNS, ITEMS, PEOPLE = 1000, 12, 4
DELTA = Fraction(1, 10**6)
MODES = {"central": 1, "split": 2}


def measure() -> list[Figure]:
    """Attack campaigns, campaigns with faults, and trainers."""
    figures = []
    for mode in MODES:
        found = attacked(mode, Code())
        figures += figures_of(f"campaign, {mode}", found, "<= 2")
        figures.append(
            Figure(f"campaign, {mode}: claims violated", len(found.violated), "", "<= 0")
        )
    for name, (code, parties, _) in FAULTS.items():
        mode = "split" if parties == 2 else "central"
        found = attacked(mode, code)
        figures += figures_of(f"fault: {name}", found, "")
        figures.append(Figure(f"fault: {name}: claims violated", len(found.violated), "", ">= 1"))
    return figures + trainers()


def attacked(mode: str, code: Code) -> CampaignAudit:
    """Return the audit of one campaign."""
    source = SystemSource()
    planned = plan(Outline(Fraction(2), DELTA, MODES[mode]), range(ITEMS))
    return audit(Subject(planned, crowd(ITEMS, PEOPLE, source)), RUNS, source, code)


def figures_of(name: str, found: CampaignAudit, target: str) -> list[Figure]:
    """Return what was shown of a campaign."""
    return [
        Figure(f"{name}: epsilon, at least", found.epsilon_bound, "", target),
        Figure(f"{name}: the same if the curve is Gaussian", found.epsilon_curve, "", target),
        Figure(f"{name}: epsilon, estimated", found.epsilon_estimate, ""),
        Figure(f"{name}: AUC", found.auc, ""),
        Figure(f"{name}: AUC in theory", found.auc_theory, ""),
    ]


def trainers() -> list[Figure]:
    """Attack every trainer with one rating event and without."""
    figures = []
    for name in TRAINERS:
        sizes = (SPARSE,) if name == "sgld-paper" else ()
        found = audit_trainer(subject(name, *sizes), RUNS, SystemSource())
        stated = "none" if found.epsilon is None else f"{found.epsilon:.3g}"
        target = "" if found.epsilon is None else f"<= {found.epsilon:.3f}"
        label = f"{name}, {stated} stated"
        figures.append(Figure(f"{label}: epsilon, at least", found.epsilon_bound, "", target))
        figures.append(Figure(f"{label}: AUC", found.auc, ""))
    return figures
