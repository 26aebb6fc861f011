"""All mutants: realistic defects in lines that matter, of every package of the product.

They were chosen by reading the product, and not the tests: an off-by-one, a check that is left out,
a wrong sign or scale, a sync, retry or exclusion that is lost.
"""

from __future__ import annotations

from tests.mutants.device_lines import OF_DEVICES
from tests.mutants.server_lines import OF_SERVERS
from tests.mutants.shared_lines import SHARED

MUTANTS = (*OF_DEVICES, *SHARED, *OF_SERVERS)
