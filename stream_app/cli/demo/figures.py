"""The figures of a demo of single reports, and what must hold of them."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.errors import UserError


@dataclass
class Figures:
    """Counts of ratings: of the population, published, refused by devices, of visitors of the page,
    and by what the worker did with them; digests of the worker's state and of the log's."""

    rows: int = 0
    published: int = 0
    refused: int = 0
    visitors: int = 0
    applied: int = 0
    duplicates: int = 0
    held_out: int = 0
    model_digest: str = ""
    log_digest: str = ""
    rebuild_seconds: float = 0.0

    @property
    def is_accounted_for(self) -> bool:
        """Whether every rating is found at the worker or was refused."""
        arrived = self.applied + self.duplicates + self.held_out
        whole = self.published + self.refused == self.rows
        return whole and arrived == self.published + self.visitors

    def check(self) -> None:
        """Raise UserError if a rating is lost, or if the state is not that of the log."""
        if not self.is_accounted_for:
            raise UserError(
                f"not every rating is accounted for ({self.accounts()}): please report it"
            )
        if self.model_digest != self.log_digest:
            raise UserError(
                "the worker's state is not that of the log: please report this as a defect"
            )

    def accounts(self) -> str:
        """Return where every rating is."""
        return (
            f"rows {self.rows:,} = published {self.published:,} + refused {self.refused:,}; "
            f"published + {self.visitors:,} of visitors of the page = applied {self.applied:,} + "
            f"held out {self.held_out:,} + duplicate {self.duplicates:,}"
        )

    def recomputed(self) -> str:
        """Return whether the worker has the state of the log."""
        equal = "equal" if self.model_digest == self.log_digest else f"DIFFERENT: {self.log_digest}"
        return f"state recomputed from the log in {self.rebuild_seconds:.1f} s: {equal}"
