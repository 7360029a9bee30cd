use millstream_core::{Catalog, TableInfo, TableKind};
use millstream_model::{QualifiedTable, Text};
use millstream_postgres::read_catalog;

use crate::cluster::Cluster;

fn public(name: &str) -> QualifiedTable {
    QualifiedTable::new("public", name)
}

async fn catalog(cluster: &Cluster, role: &str, tables: &[QualifiedTable]) -> Catalog {
    read_catalog(&mut *cluster.connect(role).await, &tables.iter().cloned().collect()).await.unwrap()
}

fn texts(names: &[&str]) -> Vec<Text> {
    names.iter().map(|name| Text::from(*name)).collect()
}

fn refusal(info: &TableInfo) -> Option<&str> {
    match &info.kind {
        TableKind::Unsupported(what) => Some(what),
        _ => None,
    }
}

#[tokio::test]
async fn case_d13_columns_are_known_down_to_their_base_types() {
    let cluster = Cluster::with(
        "create domain a as bigint not null; create domain b as a; create domain c as a[]; create type mood as enum ('x');
         create table t (id b, list int4[], domains c, name varchar(20), price numeric(10,2), mood mood, fixed char(3),
           at timestamptz, twice int generated always as (5) stored, free text not null, primary key (at, id))",
    )
    .await;
    let found = catalog(&cluster, "postgres", &[public("t")]).await;
    let t = found.table(&public("t")).unwrap();
    assert_eq!(t.primary_key, texts(&["at", "id"]));
    let seen: Vec<String> = t
        .columns
        .iter()
        .map(|it| {
            let flags = [it.is_array, it.is_enum, it.nullable, it.one_text_per_value, it.generated];
            let flags: String = flags.iter().zip("aentg".chars()).filter(|(on, _)| **on).map(|(_, it)| it).collect();
            format!("{} {}={} {flags}", it.name, it.native_type, it.base_type)
        })
        .collect();
    assert_eq!(
        seen,
        [
            "id b=int8 t",
            "list integer[]=int4 an",
            "domains c=int8 an",
            "name character varying(20)=varchar nt",
            "price numeric(10,2)=numeric n",
            "mood mood=mood ent",
            "fixed character(3)=bpchar n",
            "at timestamp with time zone=timestamptz t",
            "twice integer=int4 ntg",
            "free text=text t",
        ]
    );
}

#[tokio::test]
async fn case_h9_what_tells_no_changes_is_refused_with_the_reason() {
    let cluster = Cluster::with(
        "create table r (id int primary key); create view v as select * from r; create unlogged table u (id int);
         create materialized view m as select 1 as x; create table parent (id int); create table child () inherits (parent);
         create table p (id int primary key) partition by range (id); create table p1 partition of p for values from (0) to (9)",
    )
    .await;
    let names = ["r", "v", "u", "m", "parent", "child", "p", "p1", "missing"];
    let mut asked: Vec<QualifiedTable> = names.iter().map(|name| public(name)).collect();
    asked.push(QualifiedTable::new("pg_catalog", "pg_class"));
    let found = catalog(&cluster, "postgres", &asked).await;
    let of = |name: &str| refusal(found.table(&public(name)).unwrap()).map(str::to_owned);
    assert_eq!(of("r"), None);
    assert_eq!(of("child"), None);
    assert_eq!(of("p1"), None);
    assert_eq!(of("v").as_deref(), Some("a view"));
    assert_eq!(of("u").as_deref(), Some("an unlogged table"));
    assert_eq!(of("m").as_deref(), Some("a materialized view"));
    assert_eq!(of("parent").as_deref(), Some("an inheritance parent"));
    assert_eq!(found.table(&public("p")).unwrap().kind, TableKind::Partitioned);
    assert!(refusal(found.table(&QualifiedTable::new("pg_catalog", "pg_class")).unwrap()).is_some());
    assert!(found.table(&public("missing")).is_none());
    assert!(found.others.contains(&public("child")));
}

#[tokio::test]
async fn p5_old_values_are_what_the_identity_of_every_leaf_tells() {
    let cluster = Cluster::with(
        "create table key (id int primary key, x int not null);
         create table late (id int primary key deferrable);
         create table nothing (id int primary key); alter table nothing replica identity nothing;
         create table whole (id int primary key, x int); alter table whole replica identity full;
         create table one (id int primary key, x int not null); create unique index one_x on one (x, id);
         alter table one replica identity using index one_x;
         create table p (id int primary key, x int not null, y int) partition by range (id);
         create table p1 partition of p for values from (0) to (10); alter table p1 replica identity full;
         create table p2 partition of p for values from (10) to (30) partition by range (id);
         create table p21 partition of p2 for values from (10) to (20); create unique index p21_x on p21 (x, id);
         alter table p21 replica identity using index p21_x; insert into p values (1, 1), (11, 1); analyze",
    )
    .await;
    let asked: Vec<QualifiedTable> = ["key", "late", "nothing", "whole", "one", "p"].map(public).into();
    let found = catalog(&cluster, "postgres", &asked).await;
    let of = |name: &str| found.table(&public(name)).unwrap().old_values.clone();
    assert_eq!(of("key"), Some(texts(&["id"])));
    assert_eq!(of("late"), Some(Vec::new()), "a deferrable key is no identity");
    assert_eq!(of("nothing"), Some(Vec::new()));
    assert_eq!(of("whole"), None);
    assert_eq!(of("one"), Some(texts(&["id", "x"])));
    assert_eq!(of("p"), Some(texts(&["id", "x"])));
    assert_eq!(found.table(&public("p")).unwrap().estimated_rows, 2);
}

#[tokio::test]
async fn p13_odd_names_and_what_a_role_may_read() {
    let cluster = Cluster::with(
        r#"create role reader login; create schema "Sales-2";
           create table "Sales-2"."Or""d.er" ("us er" int primary key); grant select on "Sales-2"."Or""d.er" to reader;
           create table part (id int primary key, secret text, "Odd" int); grant select (id, "Odd") on part to reader;
           create index on part ("Odd", lower(secret)); create index on part (secret) where id > 1; create index on part using brin (id);
           create table hidden (id int primary key); alter table hidden enable row level security; grant select on hidden to reader"#,
    )
    .await;
    let odd = QualifiedTable::new("Sales-2", "Or\"d.er");
    let found = catalog(&cluster, "reader", &[odd.clone(), public("part"), public("hidden")]).await;
    assert!(!found.table(&odd).unwrap().column("us er").unwrap().readable, "no right on the schema");
    let part = found.table(&public("part")).unwrap();
    let readable = |name: &str| part.column(name).unwrap().readable;
    assert!(readable("id") && readable("Odd") && !readable("secret"));
    assert!(found.table(&public("hidden")).unwrap().row_security);
    assert!(!part.row_security);
    assert!(part.is_indexed(&texts(&["Odd"])) && part.is_indexed(&texts(&["id"])));
    assert!(!part.is_indexed(&texts(&["secret"])), "a partial index serves some rows only");
}
