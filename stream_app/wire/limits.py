"""The limits of the wire contract."""

VERSION = 1
# The newest version of the log that this release knows: 2 has extension blocks of events, 3 entries
# that change the design.
CONTRACT = DESIGN_CONTRACT = 3
MAX_EXTENSION_BYTES = 512
MAX_EVENT_BYTES = 128 * 1024
# Of a batch of records on a topic that outsiders write: a largest event with its framing fits, and
# the producers here end a batch at three quarters of it.
MAX_BATCH_BYTES = 2 * MAX_EVENT_BYTES
# Of a reply: 200 ids of the longest kind, each byte of which may take six in JSON.
MAX_REPLY_BYTES = 160 * 1024
MAX_RATINGS = 4096
MAX_ITEM_BYTES = 128
MAX_SEQ = 2**62
MAX_SEQ_GAP = 64
LIST_LENGTH = 100
PARTITIONS = 4
MAX_SHARDS = 1024
DEVICE_BYTES = 16
EPOCH_SECONDS = 86_400
PAGE_ITEMS = 4096
MEAN_CODES_PER_STAR = 50
TABLE_PAGE_BYTES = 64 * 1024
MAX_TABLE_BYTES = 2 * 1024 * 1024
# Of an entry of the catalogue.
MAX_TITLE, MAX_GENRE = 500, 50  # characters
MAX_GENRES = 16
MAX_YEAR = 9999
# Of a campaign. The vector of a stage is one record: 48,000 integers of 4 bytes, its other shares
# and its framing fit in what the broker takes as a batch.
MAX_INTEGERS = 48_000
MAX_BOUND = 2**24
MIN_VARIANCE, MAX_VARIANCE = 4, 2**32
MAX_SCOPE = 2**16
MAX_STAGES = 64
MAX_CONTRIBUTION_BYTES = 6 * MAX_INTEGERS + 2**14
MAX_CONTRIBUTION_BATCH_BYTES = 2**19  # what the topic of contributions takes
# Of a stage, counted after each device's first: a bit each in the list of what a party opened.
MAX_CONTRIBUTIONS = 2**22
MAX_ROUND_BYTES = 1_000_000
# Of an entry of the cut log that holds a plan or a noisy sum, which is 256,000 bytes in base64 at
# most. Below what a topic without a limit of its own takes.
MAX_ENTRY_BYTES = 512 * 1024
MAX_FORGOTTEN = 4096
# Of a plan as JSON: its entry of the cut log fits in a batch of the producers, with room to spare.
MAX_PLAN_BYTES = 200_000
