use millstream_core::{IndexSchema, SourceSpec};
use millstream_model::IndexName;
use millstream_postgres::{check_fragments, read_catalog, sqlx};

use crate::cluster::Cluster;

const TABLE: &str = "create role reader login; create role bare login; revoke temp on database postgres from public;
    grant temp on database postgres to reader;
    create table items (id int primary key, active bool, note text, created timestamptz, secret text, \"Odd \"\"c\" int);
    grant select (id, active, note, created, \"Odd \"\"c\") on items to reader; grant select on items to bare;
    create function rolls(int) returns int language plpgsql volatile as 'begin return 1; end';
    create function looks(int) returns int language plpgsql stable as 'begin return 1; end'";

/// What is found of each fragment as a `where`, in their order: `code: message`, or nothing.
async fn judge(role: &str, fragments: &[&str]) -> Vec<Option<String>> {
    let cluster = Cluster::with(TABLE).await;
    let indexes = fragments.iter().enumerate().map(|(number, fragment)| {
        let text = serde_json::json!({ "table": "items", "where": fragment, "fields": { "id": "long" } });
        (IndexName::new(format!("{number:03}")), IndexSchema::from_yaml(&text.to_string(), "s.yaml").unwrap())
    });
    let spec = SourceSpec::new(indexes);
    let mut lease = cluster.connect(role).await;
    let catalog = read_catalog(&mut lease, &spec.all_tables()).await.unwrap();
    let found = check_fragments(&mut lease, &spec, &catalog).await.unwrap();
    let left: i64 = sqlx::query_scalar("select count(*) from pg_catalog.pg_class where relname = 'items'")
        .fetch_one(&mut *lease)
        .await
        .unwrap();
    assert_eq!(left, 1, "the copy is gone");
    let of = |number: usize| {
        let found = found.iter().find(|it| it.index.as_str() == format!("{number:03}"))?;
        assert_eq!(found.path, "where");
        Some(format!("{}: {}", found.code, found.message))
    };
    (0..fragments.len()).map(of).collect()
}

async fn expect(role: &str, table: &[(&str, &str)]) {
    let fragments: Vec<&str> = table.iter().map(|(fragment, _)| *fragment).collect();
    for (found, (fragment, expected)) in judge(role, &fragments).await.iter().zip(table) {
        assert_eq!(found.as_deref().unwrap_or_default(), *expected, "{fragment}");
    }
}

#[tokio::test]
async fn what_depends_on_the_row_alone_is_accepted() {
    for role in ["postgres", "bare"] {
        expect(
            role,
            &[
                ("id > 5 -- to the end", ""),
                ("active", ""),
                ("items.id = any (array[1, 2])", ""),
                ("lower(note) = 'x; (' /* ; */", ""),
                ("\"Odd \"\"c\" > 1", ""),
                ("note ~ '^[a-z]+$'", ""),
            ],
        )
        .await;
    }
}

#[tokio::test]
async fn what_changes_with_no_event_is_an_error() {
    let settings = "sql-not-immutable: may change with no event: a conversion in it depends on settings";
    expect(
        "postgres",
        &[
            ("created > now()", "sql-volatile: changes with no event: now tells the time"),
            (
                "created > current_timestamp",
                "sql-volatile: changes with no event: current_timestamp is the present moment",
            ),
            (
                "created > 'today'",
                "sql-volatile: changes with no event: 'today' is another moment each time it is read",
            ),
            ("note = 'today'", ""),
            ("age(created) > interval '1 day'", "sql-volatile: changes with no event: age tells the time"),
            ("random() > 0.5", "sql-volatile: changes with no event: random is volatile"),
            ("rolls(id) > 1", "sql-volatile: changes with no event: rolls is volatile"),
            ("looks(id) > 1", "sql-not-immutable: may change with no event: looks is only stable"),
            ("note::timestamptz > '2020-01-01'", settings),
            ("(created at time zone 'UTC')::date > '2020-01-01'", ""),
        ],
    )
    .await;
}

#[tokio::test]
async fn what_does_not_prepare_alone_is_an_error() {
    expect(
        "postgres",
        &[
            ("nope > 1", "sql: column \"nope\" does not exist"),
            ("id", "sql: argument of CHECK must be type boolean, not type integer"),
            ("sum(id) > 3", "sql: aggregate functions are not allowed in check constraints"),
            ("id in (select 1)", "sql: holds a sub-query"),
            ("id > 1) or (true", "sql: its brackets do not match"),
            ("id > 1; drop table items", "sql: holds a semicolon"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_fragment_over_a_column_that_the_role_may_not_read_is_an_error() {
    let unreadable = "unreadable: this role may not read column `secret` of public.items";
    expect("reader", &[("secret is null", unreadable), ("note is null", "")]).await;
}

#[tokio::test]
async fn without_the_right_to_a_temporary_table_names_and_volatility_tell() {
    expect(
        "bare",
        &[
            ("nope > 1", "sql: column \"nope\" does not exist"),
            ("id", "sql: argument of WHERE must be type boolean, not type integer"),
            ("created > now()", "sql-volatile: changes with no event: now tells the time"),
            ("rolls(id) > 1", "sql-volatile: changes with no event: rolls is volatile"),
            ("looks(id) > 1", "sql-not-immutable: may change with no event: looks is only stable"),
            ("created > current_date", "sql-volatile: changes with no event: current_date is the present moment"),
        ],
    )
    .await;
}
