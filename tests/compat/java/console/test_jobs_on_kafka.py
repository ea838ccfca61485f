"""What the console does with our cluster, done with Apache Kafka's: the same tests, from click to effect."""

from tests.system.console.test_brokers import (
    test_a_broker_shows_its_directories_and_partitions,
    test_a_movement_is_seen_and_cancelled,
    test_brokers_are_emptied_and_evened_out_as_the_plan_said,
    test_elections_that_were_not_shown_are_refused,
    test_preferred_leaders_are_elected_as_the_plan_said,
)
from tests.system.console.test_events import test_what_changes_is_told
from tests.system.console.test_groups import (
    test_a_group_is_found_shows_its_lag_and_is_deleted_once_its_name_is_typed,
    test_a_group_with_members_shows_the_plan_and_nothing_to_carry_it_out,
    test_a_group_with_members_shows_them_and_is_not_deleted,
    test_a_plan_that_is_outdated_is_refused,
    test_offsets_are_reset_as_the_plan_said,
)
from tests.system.console.test_messages import (
    test_a_message_is_published_and_copied_with_changes,
    test_a_search_says_how_far_it_looked_and_what_it_found_is_downloaded,
    test_hostile_messages_are_shown_as_what_they_are_and_do_nothing,
    test_messages_are_browsed_newest_first_and_from_an_offset_or_a_time,
    test_messages_of_transactions_are_shown_once_they_are_committed,
    test_records_of_internal_topics_are_told_in_words,
)
from tests.system.console.test_topic_consumers import test_groups_with_a_member_or_an_offset_are_consumers_of_a_topic
from tests.system.console.test_topic_growth import test_the_growth_of_a_topic_is_told_as_it_goes_on
from tests.system.console.test_topic_query import test_a_query_is_answered_as_table_chart_and_file
from tests.system.console.test_topic_tail import (
    test_arriving_messages_are_filtered_and_only_the_newest_stay,
    test_messages_appear_as_they_arrive_and_wait_while_it_is_paused,
)
from tests.system.console.test_topics import (
    test_a_compacted_topic_is_not_emptied_and_it_is_said_why,
    test_a_search_is_in_the_address_and_can_be_shared,
    test_a_topic_is_created_grown_set_and_deleted,
    test_a_topic_is_emptied_and_its_offsets_go_on,
    test_what_a_cluster_refuses_stands_beside_the_form,
)

__all__ = [
    "test_a_broker_shows_its_directories_and_partitions",
    "test_a_compacted_topic_is_not_emptied_and_it_is_said_why",
    "test_a_group_is_found_shows_its_lag_and_is_deleted_once_its_name_is_typed",
    "test_a_group_with_members_shows_the_plan_and_nothing_to_carry_it_out",
    "test_a_group_with_members_shows_them_and_is_not_deleted",
    "test_a_message_is_published_and_copied_with_changes",
    "test_a_movement_is_seen_and_cancelled",
    "test_a_plan_that_is_outdated_is_refused",
    "test_a_query_is_answered_as_table_chart_and_file",
    "test_a_search_is_in_the_address_and_can_be_shared",
    "test_a_search_says_how_far_it_looked_and_what_it_found_is_downloaded",
    "test_a_topic_is_created_grown_set_and_deleted",
    "test_a_topic_is_emptied_and_its_offsets_go_on",
    "test_arriving_messages_are_filtered_and_only_the_newest_stay",
    "test_brokers_are_emptied_and_evened_out_as_the_plan_said",
    "test_elections_that_were_not_shown_are_refused",
    "test_groups_with_a_member_or_an_offset_are_consumers_of_a_topic",
    "test_hostile_messages_are_shown_as_what_they_are_and_do_nothing",
    "test_messages_appear_as_they_arrive_and_wait_while_it_is_paused",
    "test_messages_are_browsed_newest_first_and_from_an_offset_or_a_time",
    "test_messages_of_transactions_are_shown_once_they_are_committed",
    "test_offsets_are_reset_as_the_plan_said",
    "test_preferred_leaders_are_elected_as_the_plan_said",
    "test_records_of_internal_topics_are_told_in_words",
    "test_the_growth_of_a_topic_is_told_as_it_goes_on",
    "test_what_a_cluster_refuses_stands_beside_the_form",
    "test_what_changes_is_told",
]
