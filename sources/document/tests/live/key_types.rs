//! Keys of many types, over a real Postgres: text in, document out, under one spelling.

use millstream_core::schema::AggregateFunction;
use millstream_document::{Built, DocumentBuilder, PostgresDocuments};
use millstream_model::{ChangedRow, Fence, LinkValue, LinkValues, Operation, RowKey, Text};

use crate::cluster::Cluster;
use crate::schema::*;
use crate::shop::{documents, index as name, key, keys, touches};

async fn built(documents: &PostgresDocuments, keys: &[RowKey]) -> Vec<Built> {
    documents.build_many(&name(), keys).await.unwrap().built
}

#[tokio::test]
async fn case_d_keys_of_every_type_find_their_row() {
    let cluster = Cluster::start();
    cluster
        .execute("create extension citext; create type mood as enum ('sad', 'ok'); create domain code as varchar(3); create domain age as int")
        .await;
    let types = [
        ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("text", "it's, {\"x\"} \\ NULL"),
        ("text", ""),
        ("char(5)", "ab"),
        ("citext", "Bob"),
        ("numeric(10,2)", "1.5"),
        ("numeric", "NaN"),
        ("date", "0044-03-15 BC"),
        ("timestamptz", "infinity"),
        ("timestamptz", "2024-01-02 03:04:05.678+02"),
        ("bytea", "\\x00ff"),
        ("mood", "ok"),
        ("code", "abc"),
        ("age", "7"),
        ("boolean", "t"),
        ("inet", "10.0.0.1/32"),
        ("float8", "0.1"),
        ("interval", "1 day"),
        ("\"char\"", "x"),
        ("varchar(3)", "abc"),
    ];
    for (number, (native, value)) in types.iter().enumerate() {
        let root = format!("k{number}");
        let child = format!("c{number}");
        cluster.execute(&format!("create table {root} (\"Key\" {native} primary key); create table {child} (id int primary key, k {native})")).await;
        let value = value.replace('\'', "''");
        cluster
            .execute(&format!(
                "insert into {root} values ('{value}'); insert into {child} select 1, \"Key\" from {root}"
            ))
            .await;
        let own = cluster.text(&format!("select format('%s', \"Key\") from {root}")).await.unwrap();
        let children = has_many("children", path(&child, &[("Key", "k")]), vec![column("id")]);
        let documents = documents(&cluster, index(&root, vec![children]));
        let found = built(&documents, &[key("Key", &own)]).await;
        assert_eq!(found, [Built::Document(r#"{"children":[{"id":1}]}"#.to_owned())], "{native}");
        let mut row = ChangedRow::new(table(&child), key("id", "1"), Operation::Upsert, Fence::NONE);
        for link in [LinkValue::Text(own.as_str().into()), LinkValue::Absent] {
            row.after = Some(LinkValues::new(vec![Text::from("k")].into(), [link]));
            let (touched, _) = touches(&documents, &[row.clone()]).await;
            assert_eq!(touched, [(0, own.clone())], "{native}");
        }
    }
}

#[tokio::test]
async fn case_h4_a_key_under_another_spelling_is_respelled() {
    let cluster = Cluster::start();
    cluster
        .execute(
            "create extension citext; create table n (id numeric primary key); insert into n values (1.00); \
             create table c (id int primary key, n numeric); insert into c values (1, 1.000); \
             create table p (name citext primary key); insert into p values ('Bob')",
        )
        .await;
    let numbers = documents(
        &cluster,
        index("n", vec![column("id"), has_many("c", path("c", &[("id", "n")]), vec![column("id")])]),
    );
    let found = built(&numbers, &[key("id", "1.0"), key("id", "1.00"), key("id", "2")]).await;
    let whole = Built::Document(r#"{"id":1.00,"c":[{"id":1}]}"#.to_owned());
    assert_eq!(found, [Built::Respelled(key("id", "1.00")), whole, Built::Absent]);
    let mut child = ChangedRow::new(table("c"), key("id", "1"), Operation::Upsert, Fence::NONE);
    child.after = Some(LinkValues::new(vec![Text::from("n")].into(), [LinkValue::Text("1.000".into())]));
    let mut root = ChangedRow::new(table("n"), key("id", "1.00"), Operation::Upsert, Fence::NONE);
    root.old_key = Some(key("id", "1.0"));
    let (touched, _) = touches(&numbers, &[child, root]).await;
    assert_eq!(touched, [(0, "1.00".to_owned()), (1, "1.0".to_owned()), (1, "1.00".to_owned())]);
    let people = documents(&cluster, index("p", vec![column("name")]));
    let found = built(&people, &[key("name", "bob"), key("name", "Bob")]).await;
    assert_eq!(found, [Built::Respelled(key("name", "Bob")), Built::Document(r#"{"name":"Bob"}"#.to_owned())]);
}

#[tokio::test]
async fn a_composite_key_in_the_order_of_the_index() {
    let cluster = Cluster::start();
    cluster
        .execute(
            "create table n (a int, b text, c date, primary key (a, b, c)); \
             insert into n select 1, 'x:y', date '2024-01-01' + n from generate_series(0, 6000) n; \
             create table m (id int primary key, a int, b text, c date); insert into m values (1, 1, 'x:y', '2024-01-01')",
        )
        .await;
    let child = path("m", &[("a", "a"), ("b", "b"), ("c", "c")]);
    let mut schema = index("n", vec![column("b"), has_many("m", child, vec![column("id")])]);
    schema.key = Some(vec!["c".into(), "a".into(), "b".into()]);
    let documents = documents(&cluster, schema);
    let id = "2024-01-01:1:x%3Ay";
    let wanted = documents.key_from_id(&name(), id).await.unwrap();
    let other = keys(&[("c", "2024-01-01"), ("a", "1"), ("b", "X")]);
    let found = built(&documents, &[other, wanted.clone()]).await;
    assert_eq!(found, [Built::Absent, Built::Document(r#"{"b":"x:y","m":[{"id":1}]}"#.to_owned())]);
    assert_eq!(wanted.to_id(), id);
    let root = ChangedRow::new(
        table("n"),
        keys(&[("a", "1"), ("b", "x:y"), ("c", "2024-01-01")]),
        Operation::Upsert,
        Fence::NONE,
    );
    let mut child = ChangedRow::new(table("m"), key("id", "1"), Operation::Delete, Fence::NONE);
    let text = |value: &str| LinkValue::Text(value.into());
    let columns: Vec<Text> = ["a", "b", "c"].map(Text::from).to_vec();
    child.before = Some(LinkValues::new(columns.into(), [text("1"), text("x:y"), text("2024-01-01")]));
    let (touched, _) = touches(&documents, &[root, child]).await;
    assert_eq!(touched, [(0, id.to_owned()), (1, id.to_owned())]);
    // All keys in pages, in an order of three columns.
    let truncated = ChangedRow::new(table("m"), keys(&[]), Operation::Truncate, Fence::NONE);
    assert_eq!(touches(&documents, &[truncated]).await.0.len(), 6001);
}

#[tokio::test]
async fn a_text_that_the_type_refuses_fails_by_itself() {
    let cluster = Cluster::start();
    cluster.execute("create table n (id int primary key); insert into n values (1)").await;
    let documents = documents(&cluster, index("n", vec![column("id")]));
    let error = documents.build_many(&name(), &[key("id", "x"), key("id", "1")]).await.unwrap_err();
    assert_eq!(error.kind(), millstream_core::SourceErrorKind::Query, "{error}");
    assert_eq!(built(&documents, &[key("id", "1")]).await.len(), 1);
}

#[tokio::test]
async fn a_page_gives_its_keys_and_no_others_whatever_came_or_went_since() {
    let cluster = Cluster::start();
    cluster
        .execute(
            "create table parts (name text, number numeric(6,2), note text, primary key (name, number)); \
             create table uses (id int primary key, name text, number numeric(6,2), amount int); \
             insert into parts select chr(97 + n / 10), n, 'note ' || n from generate_series(0, 59) n; \
             insert into uses select n, chr(97 + n % 60 / 10), n % 60, n from generate_series(0, 299) n",
        )
        .await;
    let fields = vec![
        column("note"),
        has_many("uses", path("uses", &[("name", "name"), ("number", "number")]), vec![column("amount")]),
        over("total", AggregateFunction::Sum(of("amount")), path("uses", &[("name", "name"), ("number", "number")])),
    ];
    let documents = documents(&cluster, index("parts", fields));
    assert!(documents.page_sql(&name()).await.unwrap().is_some());
    let part =
        |n: i32| keys(&[("name", &char::from(b'a' + (n / 10) as u8).to_string()), ("number", &format!("{n}.00"))]);
    let page: Vec<RowKey> = (7..43).map(part).collect();
    cluster.execute("delete from parts where number in (7, 20, 42); insert into parts values ('b', 12.5, 'new')").await;
    let by_page = documents.build_page(&name(), &page).await.unwrap().built;
    assert_eq!(by_page, built(&documents, &page).await);
    assert_eq!(by_page.iter().filter(|built| matches!(built, Built::Absent)).count(), 3);
    let nothing = documents.build_page(&name(), &[]).await.unwrap();
    assert!(nothing.built.is_empty());
}
