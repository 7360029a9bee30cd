//! Tables that are polled: rows change, move and go while the host is killed; what is built equals plain SQL over the source.

#![allow(clippy::unwrap_used)] // A test that meets the unexpected may panic.

use millstream_tests::wait::until;
use millstream_tests::{Cluster, Connection, Folder, Host, Random, free_port, oracle, until_documents};

const TABLES: &str = "
create table products (id bigint primary key, name text, price numeric, at timestamptz not null default clock_timestamp(), gone timestamptz);
create table reviews (id bigint primary key, product_id bigint, stars int, version bigint not null);
create sequence versions;
create table deleted (review bigint, number bigserial primary key);
create function bury() returns trigger language plpgsql as
  $$ begin insert into deleted (review) values (old.id); return old; end $$;
create trigger bury after delete on reviews for each row execute function bury();
insert into products select n, 'product ' || n, n + 0.5 from generate_series(1, 300) n;
insert into reviews select n, 1 + n % 300, n % 6, nextval('versions') from generate_series(1, 600) n;
";

const ORACLE: &str = "
select p.id::text, json_build_object('id', p.id, 'name', p.name, 'price', p.price, 'reviews', coalesce((select json_agg(
  json_build_object('id', r.id, 'stars', r.stars) order by r.id) from reviews r where r.product_id = p.id), '[]'))::text
from products p where p.gone is null";

fn config(url: &str, port: u16) -> String {
    format!(
        r#"
name: shop
http: {{ listen: "127.0.0.1:{port}" }}
source:
  polling:
    store: {{ sqlite: {{ path: store.db }} }}
    every: 50ms
    floor: off
    sql_table:
      url: "{url}"
      page_rows: 100
      tables:
        products: {{ cursor: at, settle: 20ms, look_back: 5s, soft_delete: gone }}
        reviews:
          cursor: version
          look_back: 50
          delete_log: {{ table: deleted, cursor: number, key: [review], look_back: 20 }}
sinks: {{ out: {{ jsonl: {{ path: docs.jsonl }} }} }}
dead_letters: {{ jsonl: {{ path: dead.jsonl }} }}
indexes:
  products:
    schema:
      table: products
      fields:
        id: long
        name: {{ type: text, nullable: true }}
        price: {{ type: decimal, nullable: true }}
        reviews: {{ has_many: reviews, join: {{ id: product_id }}, fields: {{ id: long, stars: {{ type: long, nullable: true }} }} }}
"#
    )
}

/// A few changes: corrections, moves, removals, what is new, and what was gone and is back.
async fn change(source: &mut Connection, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let (product, review, number) = (1 + random.below(310), 1 + random.below(640), random.below(1000));
        let sql = match random.below(6) {
            0 => format!(
                "insert into products values ({product}, 'new \"{number}\"', {number}.25) on conflict (id) do update \
                 set name = excluded.name, price = excluded.price, gone = null, at = clock_timestamp()"
            ),
            1 => format!("update products set gone = clock_timestamp(), at = clock_timestamp() where id = {product}"),
            2 => format!("delete from reviews where id = {review}"),
            _ => format!(
                "insert into reviews values ({review}, {product}, {}, nextval('versions')) on conflict (id) do update \
                 set product_id = excluded.product_id, stars = excluded.stars, version = excluded.version",
                number % 6
            ),
        };
        source.run(&sql).await;
    }
}

async fn until_equal(folder: &Folder, source: &mut Connection, what: &str) {
    until_documents(folder.path(), "products", &oracle(source, ORACLE).await, what).await;
}

fn spawn(folder: &Folder, port: u16) -> Host {
    Host::spawn(&folder.path().join("millstream.yaml"), &folder.path().join("host.log"), port)
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_are_polled_while_the_host_is_killed_end_equal() {
    let database = Cluster::shared().await.database("polled_tables").await;
    let mut source = database.connect().await;
    source.run(TABLES).await;
    let folder = Folder::new();
    let port = free_port();
    std::fs::write(folder.path().join("millstream.yaml"), config(&database.url(), port)).unwrap();
    let mut random = Random::new(44);
    let mut host = spawn(&folder, port);
    until_equal(&folder, &mut source, "the filling").await;
    for round in 0..24 {
        change(&mut source, &mut random).await;
        if round % 3 == 0 {
            // Somewhere between reading the tables and the last ack.
            tokio::time::sleep(std::time::Duration::from_millis(random.below(150))).await;
            host.kill();
            host = spawn(&folder, port);
        }
        if round % 4 == 3 {
            until_equal(&folder, &mut source, &format!("round {round}")).await;
        }
    }
    until_equal(&folder, &mut source, "the last change").await;
    let cycles = ["engine=\"shop\"", "kind=\"completed\""];
    until("a look to be counted", || async {
        host.metric("millstream_polling_cycles_total", &cycles).await.filter(|count| *count >= 1.0)
    })
    .await;
    assert!(host.metrics().await.contains("# HELP millstream_polling_cycle_seconds "));
    assert!(host.stop().await.success());
}
