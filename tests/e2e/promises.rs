//! The promises that no case tells alone. The others are named beside their cases: P2 in A1, P3 in G, P5 in C2, P7 in C7,
//! P8 in B1 and B2, P9 in B3 and H6, P11 in H12, P12 in D10, P13 in D11, P14 in B15, P15 in B8 and B17, P16 in A9, A11 and B5,
//! P17 in A16, P18 in C13, F4 and H11, P19 in F9.

use std::collections::HashMap;

use millstream_model::Version;
use millstream_sinks::Outcome;
use millstream_tests::wait::until;
use millstream_tests::{Random, Stage};

use crate::words::{family, notes};

#[tokio::test(flavor = "multi_thread")]
async fn p1_a_change_is_confirmed_only_when_every_sink_has_it() {
    let mut stage = notes("p1").await;
    let (one, other) = (stage.record(), stage.record_also("second"));
    stage.start().await;
    stage.settled().await;
    other.hold();
    let position = stage.write("insert into notes values (1, 'x')").await;
    until("the first sink to have it", || async { (one.documents("notes").len() == 1).then_some(()) }).await;
    until("the second to wait", || async { (other.stalled() > 0).then_some(()) }).await;
    assert!(!stage.is_confirmed(&position).await);
    other.release();
    stage.settled().await;
    assert_eq!(one.documents("notes"), other.documents("notes"));
    stage.close().await;
}

/// A large transaction travels as many batches: the first being durable confirms nothing.
#[tokio::test(flavor = "multi_thread")]
async fn p2_a_part_of_a_transaction_confirms_nothing() {
    let mut stage = notes("p2").await;
    let sink = stage.record();
    stage.start().await;
    stage.settled().await;
    // The last row is refused, and all before it are durable.
    sink.refuse("50000");
    let position = stage.write("insert into notes select n, 'n' from generate_series(1, 50000) n").await;
    until("all but the last row to be durable", || async { (sink.documents("notes").len() == 49_999).then_some(()) })
        .await;
    stage.run("insert into notes values (60000, 'behind it')").await;
    until("what is behind it to be durable", || async { sink.documents("notes").contains_key("60000").then_some(()) })
        .await;
    assert!(!stage.is_confirmed(&position).await);
    stage.kill();
    sink.accept("50000");
    stage.start().await;
    stage.settled().await;
    stage.close().await;
}

/// Builds of one document never overlap or go back: the versions that come to the sink only rise.
#[tokio::test(flavor = "multi_thread")]
async fn p4_a_documents_versions_only_rise() {
    let mut stage = family("p4").await;
    let sink = stage.record();
    stage.run("insert into parents select n, 'p' from generate_series(1, 10) n; insert into children select n, 1 + n % 10, 'c' from generate_series(1, 100) n").await;
    stage.start().await;
    let mut random = Random::new(4);
    for round in 0..300 {
        let (child, parent) = (1 + random.below(100), 1 + random.below(10));
        stage.run(&format!("update children set parent_id = {parent}, name = 'round {round}' where id = {child}; update parents set name = 'round {round}' where id = {parent}")).await;
    }
    stage.settled().await;
    let mut last: HashMap<String, Version> = HashMap::new();
    for write in sink.writes() {
        let before = last.insert(write.id.clone(), write.version);
        assert!(
            before.is_none_or(|before| before < write.version),
            "{} went from {before:?} to {}",
            write.id,
            write.version
        );
    }
    stage.close().await;
}

/// A related row's key change is followed on every path that leads to it.
#[tokio::test(flavor = "multi_thread")]
async fn p6_a_related_rows_key_change_refreshes_old_and_new_on_every_path() {
    let mut stage = Stage::new("p6").await;
    stage.run("create table docs (id int primary key, author int, editor int); create table people (id int primary key, boss int, name text); create index on docs (author); create index on docs (editor); create index on people (boss)").await;
    stage.run("insert into people values (1, 3, 'a'), (2, 3, 'b'), (3, null, 'c'); insert into docs values (1, 1, 2), (2, 2, 2), (3, 4, 3), (4, 1, 4)").await;
    let person =
        "belongs_to: people, fields: { name: text, boss: { value: name, of: people, type: text, join: { boss: id } } }";
    stage.index(
        "docs",
        &format!("{{ table: docs, fields: {{ id: integer, author: {{ {person}, join: {{ author: id }} }}, editor: {{ {person}, join: {{ editor: id }} }} }} }}"),
        "select d.id, json_build_object('id', d.id,
           'author', (select json_build_object('name', p.name, 'boss', (select b.name from people b where b.id = p.boss)) from people p where p.id = d.author),
           'editor', (select json_build_object('name', p.name, 'boss', (select b.name from people b where b.id = p.boss)) from people p where p.id = d.editor)) from docs d",
    );
    // A person with their staff: the same table joined to itself, from the other side.
    stage.index(
        "people",
        "{ table: people, fields: { id: integer, staff: { collect: name, of: people, type: text, join: { id: boss } }, written: { count: docs, join: { id: author } } } }",
        "select p.id, json_build_object('id', p.id, 'staff', coalesce((select json_agg(s.name order by s.id) from people s where s.boss = p.id), '[]'::json), 'written', (select count(*) from docs d where d.author = p.id)) from people p",
    );
    stage.start().await;
    stage.settled().await;
    for change in [
        "update people set id = 4 where id = 1",
        "update people set id = 5, boss = 4 where id = 2",
        "update people set id = 2 where id = 3",
        "begin; update people set id = -1 where id = 4; update people set id = 4 where id = 5; update people set id = 5 where id = -1; commit",
        "begin; update people set boss = 5 where id = 4; update people set boss = 2 where id = 4; commit",
        "update docs set author = author + 1, id = id + 10",
        "delete from people where id = 4",
    ] {
        stage.run(change).await;
        stage.settled().await;
    }
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_a_rejected_document_goes_to_the_dead_letters_and_the_rest_goes_on() {
    let mut stage = notes("p11").await;
    let sink = stage.record();
    stage.run("insert into notes select n, 'n' from generate_series(1, 100) n").await;
    sink.reject("50");
    stage.start().await;
    stage.until_confirmed().await;
    assert_eq!(sink.documents("notes").len(), 99);
    let rejected = sink.writes().iter().filter(|write| matches!(write.outcome, Outcome::Rejected(_))).count();
    assert!(rejected > 0);
    let letters = stage.dead_letters();
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0].get("id").and_then(|id| id.as_text()), Some("50"));
    sink.accept("50");
    stage.run("update notes set body = 'better' where id = 50").await;
    stage.settled().await;
    let last = stage.dead_letters().pop().expect("it is resolved");
    assert_eq!(last.get("state").and_then(|state| state.as_text()), Some("resolved"));
    stage.close().await;
}

/// Exactly what was refused is written again.
#[tokio::test(flavor = "multi_thread")]
async fn p20_only_what_was_refused_is_written_again() {
    let mut stage = notes("p20").await;
    let sink = stage.record();
    stage.start().await;
    stage.settled().await;
    sink.refuse("2");
    stage.run("insert into notes select n, 'n' from generate_series(1, 10) n").await;
    until("it to be tried again", || async {
        (sink.writes().iter().filter(|write| write.id == "2").count() > 3).then_some(())
    })
    .await;
    sink.accept("2");
    stage.settled().await;
    for id in [1, 3, 10] {
        assert_eq!(sink.stored(&id.to_string()), 1, "{id} was written again");
    }
    stage.close().await;
}
