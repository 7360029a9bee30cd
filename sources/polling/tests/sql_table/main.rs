//! Tables of real databases as streams: the same promises on each.
//!
//! SQLite and Postgres are always there. MySQL and MariaDB are tried where somebody names one:
//! `MILLSTREAM_TEST_MYSQL=mysql://root@localhost:3306/test cargo test -p millstream-polling --features mysql -- --ignored mysql`.

#![allow(clippy::unwrap_used)] // A test that meets the unexpected may panic.

#[path = "../postgres/cluster.rs"]
#[allow(dead_code)] // The rest of it is for tests of the store.
mod cluster;
mod cursors;
mod refusals;
mod removals;
mod source;
mod values;

use crate::cluster::Cluster;
use crate::source::Source;

/// Runs every promise, each in a schema of its own.
macro_rules! promises {
    ($($module:ident :: $name:ident),* $(,)?) => {
        mod sqlite {
            use super::*;

            $(#[tokio::test]
            async fn $name() {
                crate::$module::$name(&Source::sqlite()).await;
            })*
        }

        async fn on_a_server(url: &str) {
            $(
                println!("{}", stringify!($name));
                crate::$module::$name(&Source::server(url, stringify!($name)).await).await;
            )*
        }
    };
}

promises! {
    cursors::it_conforms,
    cursors::pages_end_where_they_should_though_many_rows_share_a_cursor,
    cursors::no_digit_of_a_cursor_is_rounded,
    cursors::what_is_read_was_left_alone_for_a_while_by_the_sources_own_clock,
    cursors::a_row_that_was_committed_late_is_found_by_looking_back,
    cursors::numbers_grow_without_a_clock,
    cursors::numbers_may_be_moments,
    cursors::rows_without_a_cursor_or_ahead_of_the_clock_follow_a_policy,
    cursors::a_mark_of_another_cursor_is_no_place_to_go_on_from,
    removals::a_soft_delete_removes_and_its_undoing_restores,
    removals::a_row_that_leaves_the_filter_is_gone,
    removals::a_delete_log_removes_what_is_not_there_again,
    removals::all_keys_are_compared_when_that_is_due,
    removals::a_reconciled_table_is_the_whole_truth,
    values::p12_values_arrive_with_all_their_digits,
    values::p13_any_name_works,
    values::moments_without_a_zone_get_the_one_that_was_said,
    refusals::what_is_not_set_up_is_said_by_name,
    refusals::a_table_that_is_dropped_and_made_anew_is_found_again,
    refusals::more_rows_than_fit_in_one_piece_are_refused,
}

#[tokio::test]
async fn postgres_keeps_every_promise() {
    let cluster = Cluster::start();
    on_a_server(&cluster.url()).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
#[ignore = "needs a MySQL or MariaDB: its url in MILLSTREAM_TEST_MYSQL"]
async fn mysql_keeps_every_promise() {
    on_a_server(&std::env::var("MILLSTREAM_TEST_MYSQL").unwrap()).await;
}
