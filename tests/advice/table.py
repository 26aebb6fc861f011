"""What obeys each sentence whose advice touches the log, the state, a topic, a journal or a budget.

OBEYED   a test that makes the fault, does what the sentence says, and finds no record lost and
         no spent budget lowered -> words of the sentences
PLAIN    why nothing that is stored changes -> words of sentences (patterns)
"""

from __future__ import annotations

import re

# A sentence that matches is of this kind.
DANGEROUS = re.compile(
    r"rebuild|truncat|accept-gap|reseal|snapshot|migrate|topics apply|restore|delete|--prefix"
    r"|--group\b|forget|enrol|--journal|trust-journal|trust-clock|accept-scope|abort|withdraw|--from"
    r"|state_secret|retention|budget|back\b.*settings|secret back|set partitions|recreate|lost"
    r"|stage close|revoke|--make-keys|config apply|--yes|republish"
    r"|--most-epsilon|--most-cells"
)
# A sentence that consents to a loss has one of these.
CONSENT = re.compile(
    r"lost|discard|drop|deletes?\b|without them|trusts|given up|begins? again|adds to"
)

OBEYED: dict[tuple[str, str], tuple[str, ...]] = {
    (
        "tests/kafka/test_forget_commands.py",
        "test_a_rebuild_is_refused_where_the_log_does_not_reach_back",
    ): (
        "a device is to be forgotten with a rebuild, but the state began from the snapshot",
        "--rebuild: the state began from the snapshot",
        "--rebuild: …, so the log cannot be replayed",
    ),
    (
        "tests/faults/test_process_checkpoints.py",
        "test_a_replica_that_differs_from_a_digest_report_raises_the_alarm_and_ends_right",
    ): ("the state differs from another replica's",),
    (
        "tests/advice/test_obeyed.py",
        "test_a_state_topic_with_added_partitions_is_made_again",
    ): ("it holds checkpoints only; if ratings are kept",),
    (
        "tests/kafka/test_state_secret.py",
        "test_a_secret_is_introduced_changed_and_removed_by_one_start",
    ): (
        "give every worker the same state_secret",
        "the checkpoint is sealed, and this worker has no state_secret",
        "give both the same state_secret",
        "a worker of another release, or without the state_secret",
        "no checkpoint has the seal of this state_secret",
    ),
    (
        "tests/faults/test_broker_topics.py",
        "test_a_recreated_rating_topic_is_not_taken_for_the_old_one",
    ): (
        "was deleted or recreated under this worker",
        "restore the topic or start a new deployment",
    ),
    (
        "tests/kafka/test_state_commands.py",
        "test_verify_and_rebuild_go_by_the_design_in_force_and_not_by_other_settings",
    ): (
        "or run `murmurec worker --rebuild` to start over",
        "murmurec state rebuild",
    ),
    (
        "tests/kafka/test_beginning.py",
        "test_a_new_deployment_begins_with_the_model_of_another",
    ): ("or start a new deployment (--prefix)",),
    (
        "tests/advice/test_obeyed.py",
        "test_a_damaged_checkpoint_of_a_snapshot_is_recomputed_with_its_file",
    ): (
        "is damaged, and older ones have another origin",
        "the state began from the snapshot …: give it with --snapshot",
        "the state began from a snapshot, …: give its file",
    ),
    (
        "tests/kafka/test_beginning_again.py",
        "test_a_file_is_adopted_once_and_again_on_request",
    ): (
        "adopt it at the newest cut with murmurec worker --from-snapshot",
        "murmurec state rebuild --snapshot FILE --at-newest-cut",
        "--at-newest-cut: needs --snapshot FILE",
        "the state did not begin from a snapshot",
    ),
    (
        "tests/kafka/test_beginning_again.py",
        "test_a_lost_state_topic_is_not_replaced_by_another_state",
    ): ("the log alone gives another state",),
    (
        "tests/kafka/test_beginning_again.py",
        "test_a_gap_that_was_accepted_is_not_widened",
    ): ("discards the records before it; confirm",),
    (
        "tests/faults/test_broker_retention.py",
        "test_without_checkpoint_and_log_a_worker_refuses_until_the_gap_is_accepted_and_recorded",
    ): ("continue without them (murmurec worker --accept-gap",),
    (
        "tests/kafka/test_state_offsets.py",
        "test_where_no_cut_reaches_what_is_left_one_is_written_if_it_may_be",
    ): ("no cut reaches the oldest records",),
    (
        "tests/faults/test_broker_lost_end.py",
        "test_an_end_that_was_filled_again_is_refused_with_and_without_a_checkpoint",
    ): (
        "a truncation superseded that cut",
        "and was filled again up to cut",
    ),
    (
        "tests/faults/test_broker_lost_end.py",
        "test_a_cut_log_that_lost_its_end_is_behind_the_checkpoint",
    ): (
        "take the log up without that state",
        "find its newest whole cut",
    ),
    (
        "tests/faults/test_broker_lost_end.py",
        "test_a_lost_end_is_refused_by_all_and_taken_up_with_what_is_sent_again",
    ): ("take the log up at cut", "add --yes to confirm"),
    (
        "tests/kafka/test_relay.py",
        "test_a_device_publishes_through_a_relay_and_sends_what_failed_again",
    ): ("the gateway has other bytes of this device under the number, or for the stage",),
    (
        "tests/producers/test_replay_resume.py",
        "test_republish_publishes_every_rating_again_under_new_seqs",
    ): (
        "start over with --republish",
        "publishing it again draws a second report",
        "--republish reports again",
        "--republish publishes all rows again",
    ),
    (
        "tests/producers/test_rating.py",
        "test_a_rating_is_published_once_unless_again",
    ): ("ask for it with republish (--republish)",),
    (
        "tests/producers/test_campaign.py",
        "test_a_plan_cannot_buy_its_epsilon_with_a_large_delta",
    ): ("nothing was contributed; allow more with --most-epsilon",),
    (
        "tests/stream_app/cli/test_device_run.py",
        "test_a_long_scope_is_pinned_at_enrolment_where_its_length_is_allowed",
    ): ("or allow it (--most-cells",),
    (
        "tests/kafka/test_safe_advice.py",
        "test_a_rebuild_names_the_records_that_the_settings_would_drop_and_writes_nothing",
    ): ("records that the state holds would be dropped",),
    (
        "tests/advice/test_obeyed.py",
        "test_topics_apply_cures_what_it_is_named_for",
    ): (
        "run murmurec topics apply, which sets it",
        "ratings would be deleted sooner than",
        "does not exist: create it with murmurec topics apply",
    ),
    (
        "tests/stream_app/kafka/test_topic_admin.py",
        "test_a_topic_with_fewer_copies_than_wanted_keeps_taking_records",
    ): (
        "add copies with Kafka's kafka-reassign-partitions",
        "add brokers and set replication_factor",
    ),
    (
        "tests/stream_app/kafka/test_topic_admin.py",
        "test_a_change_that_deletes_records_needs_a_word_of_its_own",
    ): ("setting it deletes records that Kafka keeps now",),
    (
        "tests/stream_app/kafka/test_topic_admin.py",
        "test_a_wrong_partition_count_names_the_setting_that_decides_it",
    ): ("the count cannot be changed; …start",),
    (
        "tests/kafka/test_safe_advice.py",
        "test_a_wrong_number_of_partitions_is_set_right_by_the_advice",
    ): ("set partitions to …",),
    (
        "tests/advice/test_obeyed.py",
        "test_a_cut_log_with_added_partitions_is_left_for_a_new_prefix",
    ): ("its records are in order in one alone",),
    (
        "tests/faults/test_process_disk_bit.py",
        "test_a_bit_that_the_brokers_disk_flips_is_found_and_costs_nothing_but_time",
    ): ("the broker's disk has damaged it",),
    (
        "tests/faults/test_broker_topics.py",
        "test_partitions_that_are_added_are_not_used_and_end_nobody",
    ): (
        "more of them need a new one (--prefix)",
        "partitions that are added are not used",
        "the deployment began with",
    ),
    (
        "tests/kafka/test_doctor.py",
        "test_a_deployment_without_faults_and_the_same_with_a_second_clock",
    ): (
        "they are in several groups; start all with the same --group",
        "give all the same --group, release and state_secret",
        "cuts come from workers of another design that was not asked",
    ),
    (
        "tests/kafka/test_design_changes.py",
        "test_a_short_log_carries_over_what_the_checkpoint_holds",
    ): ("the state cannot be computed from the log alone", "of the settings in force: wait"),
    (
        "tests/kafka/test_design_changes.py",
        "test_a_state_built_beside_takes_over_with_its_entry_and_not_before",
    ): ("a second one must be computed from",),
    (
        "tests/kafka/test_beginning.py",
        "test_other_settings_are_refused_and_rebuilt_on_request",
    ): ("set the settings back",),
    (
        "tests/producers/daemon/test_older_journal.py",
        "test_an_older_copy_ends_the_program_and_the_newest_one_goes_on",
    ): ("so this is an older copy of the journal",),
    (
        "tests/kafka/test_restored_journals.py",
        "test_three_copies_that_are_put_back_publish_no_second_draw",
    ): ("so this is an older copy, which",),
    (
        "tests/advice/test_obeyed_by_devices.py",
        "test_another_path_says_that_its_budget_begins_again",
    ): (
        "where a budget begins again",
        "leave --test out, or give another path for the test",
    ),
    (
        "tests/producers/test_identities.py",
        "test_a_user_keeps_one_name_in_a_journal",
    ): ("whose budgets would begin again",),
    (
        "tests/producers/test_siblings.py",
        "test_a_backup_in_the_same_folder_is_named_as_a_copy_to_be_moved",
    ): (
        "holds an account of the same user as",
        "is an older copy of …, …: give",
    ),
    (
        "tests/producers/test_journal_budget.py",
        "test_a_clock_set_far_forward_is_refused_unless_it_is_right",
    ): ("a clock that is set forward opens budgets",),
    (
        "tests/producers/test_pinned_scope.py",
        "test_a_scope_that_changed_is_refused_until_its_digest_is_given",
    ): (
        "the server's catalogue changed since this device took",
        "--accept-scope …: give the 64 hex",
        "who changes the scope chooses on what the budget is spent",
    ),
    (
        "tests/advice/test_obeyed_by_devices.py",
        "test_raising_a_budget_keeps_what_was_spent",
    ): (
        "murmurec device enrol --raise",
        "raise the budget (murmurec device enrol",
        "a larger budget (murmurec device enrol",
    ),
    (
        "tests/producers/test_person.py",
        "test_a_withdrawn_account_comes_back_with_what_it_has_spent",
    ): ("it can only be raised, because",),
    (
        "tests/kafka/test_devices.py",
        "test_a_published_rating_is_accepted_where_its_key_belongs",
    ): (
        "run murmurec device enrol",
        "murmurec device enrol",
    ),
    (
        "tests/producers/test_person.py",
        "test_a_budget_that_its_plan_cannot_hold_is_refused_when_it_is_set",
    ): ("would hold no report above it",),
    (
        "tests/producers/test_campaign.py",
        "test_a_campaign_leaves_a_plan_until_the_person_changes_it",
    ): ("is another mechanism: …murmurec device enrol",),
    (
        "tests/stream_app/aggregation/test_keys.py",
        "test_a_public_half_that_is_not_there_is_not_called_damaged",
    ): ("what was sealed to the old ones is lost",),
    (
        "tests/kafka/test_division.py",
        "test_a_state_is_divided_and_its_shards_go_on",
    ): (
        "murmurec state verify --snapshot begins with it",
        "what the reports of this device taught has gone to the other shards",
    ),
}

# Sentences that ask for other words on the command line, or state a fact.
PLAIN: dict[str, tuple[str, ...]] = {
    "the command did nothing": (
        r"this state was divided before",
        r"give only one of them",
        r"a state starts from one of them",
        r"reads the log from its beginning",
    ),
    "queries of an hour, which are asked again": (r"which … shards cannot divide",),
    "words of the command line": (
        r"contributions are not signed",
        r"does not say when (its|the) plan was appended",
        r"--most-epsilon …: above 0 and at most",
        r"so there is no plan",
        r"--rounds-share",
        r"leave --budget out",
        r"--enrolled",
        r"reports on a public list of items",
        r"--from-topic TOPIC, --mapping FILE",
        r"correct --from-topic",
    ),
    "a deletion that a user has asked for": (r"only the operator of the recommender can forget",),
    "a value that is shown or refused": (
        r"topics are made by murmurec topics apply",
        r"set MURMUREC_EDGE_TOKEN .*or leave --host out",
        r"give the deployment's prefix as --prefix",
        r"name them with --canary",
        r"state_secret_file",
        r"ratings are kept for more than 0",
    ),
    "said before a device is forgotten, which its operator confirms": (
        r"From the next cut on, workers reject",
        r"Its \(sanitized\) records stay",
        r"Campaigns: contributions of this device",
    ),
    "a fact": (
        r"^murmurec config apply$",
        r"is withdrawn: nothing is released any more",
        r"similar_to: the item is withdrawn",
    ),
    "the file was not taken": (r"not a snapshot; make one", r"^murmurec snapshot$"),
    "nothing was begun": (r"the workers would withdraw the campaign",),
    "nothing was drawn; what is spent is looked at again": (
        r"--budget … is too small",
        r"give a larger --budget",
        r"holds no report under",
        r"of each account, and",
        r"holds fewer reports under",
        r"does not hold …: it takes no part",
        r"is a simulated account",
    ),
    "another journal of the same person": (
        r"is a test, and a contribution",
        r"a signature needs the id of the account",
        r"does not exist; publish a rating first",
        r"another journal \(--journal\)",
    ),
    "said while nothing is wrong": (r"stage close ends it now",),
    "see `enrol --raise`": (r"these are other terms: raise",),
    "tests/stream_app/operations/test_migration.py converts": (
        r"or convert it with murmurec state migrate",
    ),
    "it names the words of an option": (r"--rebuild …: use",),
    "a worker is started, and the command is run again": (r"no worker has taken that up yet",),
    "a count": (r"of the refused are over the budget",),
}
