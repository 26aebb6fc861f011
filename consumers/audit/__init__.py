"""The outside observer: tests the claims of a deployment on its topics and public configuration.

    records -> reading.py -> columns (observed.py) -> checks/, attacks/ -> findings, judged together

Nothing here knows a raw rating, a journal or the server's state. A measurement is no guarantee: it
can show that a claim is false, never that it is true.
"""

from consumers.audit.auditor import audit_observed, violated
from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding
from consumers.audit.reading import observe
