"""The wire contract: topics, ids, events, queries, replies, cuts, and reasons for rejection.

One rating topic carries one schema in two encodings, distinguished by the first byte:

    JSON         {"v":1, "device":"<32 hex>", "seq":1, "mechanism":"rr:5:2", "epoch":20000,
                  "items":[1193], "reports":[4]}
    MessagePack  the same map; `device` 16 raw bytes, `items` uint64 and `reports` uint8 columns,
                 little-endian; `masks`, where the mechanism has them, a uint16 column

Either may lie in an envelope with a signature (`stream_app.wire.signatures`), which a server may
require.

`decode` reads one record, `decode_many` a batch with vectorised checks. Both accept exactly the
same records; `decode` rejects with `WireError(reason)`, `decode_many` with the same reason in a
column.

An event is valid if: its envelope, where it has one or needs one, names its device, and where it
needs one, is signed by that device for this topic; its version is 1; its record key is the device's
pseudonym in lower-case hex and the record is on the partition of that key (murmur2); `seq` >= 1;
the mechanism is on the server's allow-list; it has as many reports as items, between 1 and
`MAX_RATINGS`; every report is in the mechanism's alphabet; and it has a mask beside each report if
and only if the mechanism reports over a partition of the levels (`Intake`).
"""

from stream_app.wire.authenticity.tails import Tail, fingerprint
from stream_app.wire.batch_decoding import Batch, RecordRun, decode_many
from stream_app.wire.campaigns.cut_entries import Aborted, CampaignEntry, CampaignPlan, Released
from stream_app.wire.cut_log import (
    MAX_TRUNCATED,
    Contract,
    Cut,
    DesignEntry,
    DigestReport,
    Entry,
    Forget,
    Merge,
    Truncate,
    decode_entry,
)
from stream_app.wire.decoding import UNREADABLE, Intake, decode, held
from stream_app.wire.events import Event, encode, encode_json
from stream_app.wire.ids import (
    Item,
    Listed,
    Unlisted,
    key,
    key_of,
    parse_item,
    partitions_of,
    unlisted,
    user_key,
)
from stream_app.wire.limits import (
    DEVICE_BYTES,
    EPOCH_SECONDS,
    LIST_LENGTH,
    MAX_EVENT_BYTES,
    MAX_ITEM_BYTES,
    MAX_RATINGS,
    MAX_SEQ,
    MAX_SEQ_GAP,
    MEAN_CODES_PER_STAR,
    PAGE_ITEMS,
    PARTITIONS,
    VERSION,
)
from stream_app.wire.messages import (
    CatalogueEntry,
    ItemTablePage,
    Query,
    Recommendation,
    Rejection,
    Status,
    Visit,
    decode_catalogue_entry,
    decode_message,
    encode_message,
    is_now,
    json_bytes,
)
from stream_app.wire.reasons import REASON_CODE, REASONS, Reason, WireError
from stream_app.wire.topics import Topic, Topics
