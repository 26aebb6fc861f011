"""What is asked and what is answered, alike over Kafka and a gateway; and how it prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NotRequired, TypedDict

from stream_app.cli.output import VISITS, described, printable, say

if TYPE_CHECKING:
    from fractions import Fraction

MOST = 100  # items in the longest answer


@dataclass(frozen=True)
class Asked:
    """A query: a pseudonym, or none for items near to one; the number of items; seconds to wait;
    the keys of items to leave out here, None where no file was given; and the options; `now`: for
    this visit."""

    user: str | None
    k: int
    seconds: float
    rated: frozenset[int] | None
    similar_to: int | str | None = None
    private: Fraction | None = None
    neighbours: bool = False
    now: bool = False

    @property
    def option(self) -> str:
        """The option of the command that a worker of an earlier release does not know."""
        if self.similar_to is not None:
            return "--similar-to"
        if self.now:
            return "--for"
        return "--private-list" if self.private is not None else "--neighbours" * self.neighbours


class AnswerItem(TypedDict):
    """An item of an answer; `score` is a predicted rating, None in a private list; `because` the
    rated item that contributes most, None where the server knows of none."""

    item: int | str
    score: float | None
    title: NotRequired[str | None]
    genres: NotRequired[list[str]]
    year: NotRequired[int | None]
    domain: NotRequired[str | None]
    because: NotRequired[int | str | None]
    because_title: NotRequired[str | None]


class AnswerGuarantee(TypedDict):
    """What a drawn list hides; `epsilon` is a number or a fraction in text."""

    adjacency: str
    epsilon: str
    method: str


_For = TypedDict("_For", {"for": NotRequired[str | None]})


class Answer(_For):
    """An answer of a gateway; an answer over Kafka has the same fields.

    `left_out`: number of items of the longest list that are not shown because they were rated.
    `ndcg`: measured nDCG@10 of the lists of `method`, `ndcg_popular` that of popular items. `for`:
    the visit that a user's list is for.
    """

    user: str | None
    items: list[AnswerItem]
    method: str
    as_of: int
    privacy: str
    ndcg: NotRequired[float | None]
    ndcg_popular: NotRequired[float | None]
    guarantee: NotRequired[AnswerGuarantee | None]
    seconds: NotRequired[float]
    left_out: NotRequired[int]


def show(answer: Answer) -> None:
    """Print the items of an answer, what each is for, and where they come from."""
    for rank, row in enumerate(answer["items"], 1):
        year, domain = row.get("year"), row.get("domain")
        shown = described(row.get("title") or "", row.get("genres", []), year, domain)
        named = printable(f"{row['item']}  {shown}")
        score = row["score"]
        say(f"{rank:4}  {'' if score is None else f'{score:.2f}  '}{named}".rstrip())
        cause = row.get("because")
        if cause is not None:
            rated = printable(row.get("because_title") or str(cause))
            say(f"            because you rated {rated}")
    if any(str(row["item"]).startswith("key:") for row in answer["items"]):
        say("an item shown as key: has a word for its id: murmurec items put WORD shows the word")
    if not answer["items"]:
        left_out = answer.get("left_out", 0)
        say(
            f"all {left_out} items of the answer are in the file of --rated"
            if left_out
            else "nothing to recommend yet"
        )
    guarantee = answer.get("guarantee")
    if answer["method"].startswith("neighbours/"):
        say(
            f"by {answer['method']}; as of cut {answer['as_of']}, "
            f"{answer['seconds'] * 1000:.1f} ms; scores are about the share of similar devices "
            "that have the item"
        )
        if guarantee is not None:
            say(f"profiles hide {guarantee['adjacency']}, by epsilon {guarantee['epsilon']}")
        return
    if guarantee is not None:
        say(
            f"drawn by {guarantee['method']} with epsilon {guarantee['epsilon']}, in no order; as "
            f"of cut {answer['as_of']}, {answer['seconds'] * 1000:.1f} ms"
        )
        say(f"hides {guarantee['adjacency']}; it may hold what was rated (--rated leaves that out)")
        return
    of_user = answer["user"] is not None
    say(
        f"by {answer['method']}{VISITS.get(answer.get('for') or '', '')}"
        f"{_measured(answer) if of_user else ''}; "
        f"as of cut {answer['as_of']}, privacy {answer['privacy']}, "
        f"{answer['seconds'] * 1000:.1f} ms; "
        f"scores are predicted ratings{'' if of_user else ' of the average user'} on 1 .. 5"
    )


def _measured(answer: Answer) -> str:
    """Return the measured quality of the lists, beside that of popular items."""
    ndcg, popular = answer.get("ndcg"), answer.get("ndcg_popular")
    if ndcg is None or popular is None:
        return ", nDCG@10 not measured yet"
    beside = "" if answer["method"] == "popular" else f" (popular {popular:.2f})"
    return f", nDCG@10 {ndcg:.2f}{beside}".replace(" 0.", " .")
