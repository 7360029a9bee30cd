//! A small shop and documents of it.

use std::sync::Arc;

use futures::StreamExt;
use millstream_core::SourceSpec;
use millstream_core::schema::*;
use millstream_document::{Built, DocumentBuilder, PostgresDocuments, ResolvedPage};
use millstream_model::{ChangedRow, IndexName, KeyColumns, RowKey, Text};

use crate::cluster::Cluster;

pub const TABLES: &str = r#"
create table companies (id bigint primary key, name text not null);
create table users (id bigint primary key, name text, company_id bigint, boss_id bigint, owner_type text, deleted_at timestamptz, archived boolean not null default false);
create table orders (id bigint primary key, user_id bigint, total numeric, status text, created_at timestamptz);
create table order_items (id bigint primary key, order_id bigint, product_id bigint, quantity int, unit_price numeric, weight float8);
create table products (id bigint primary key, name text);
create table tags (id bigint primary key, name text);
create table user_tags (user_id bigint, tag_id bigint, primary key (user_id, tag_id));
create table profiles (id bigint primary key, user_id bigint, bio text);
create table user_texts (user_id bigint, n int, lang text, text text, primary key (user_id, n));
create index on orders (user_id); create index on order_items (order_id); create index on users (company_id);
insert into companies values (1, 'Acme'), (2, 'It''s "quoted" \ back');
insert into users values (1, 'Al', 1, null, 'Company'), (2, 'Bo', 2, 1, 'Person'), (3, null, null, 1, null);
insert into orders values (10, 1, 9.50, 'paid', '2024-01-02'), (11, 1, 1.00, 'void', '2024-01-03'), (12, 1, 2.25, 'paid', null), (20, 2, 7, 'paid', '2024-02-01');
insert into order_items values (100, 10, 1, 2, 3.00, 0.1), (101, 10, 2, 1, 3.50, 0.2), (102, 12, 1, 1, 2.25, 0.3), (200, 20, 2, 1, 7, 1e300);
insert into products values (1, 'pen'), (2, 'ink');
insert into tags values (1, 'new'), (2, 'vip');
insert into user_tags values (1, 1), (1, 2), (2, 2);
insert into profiles values (5, 1, 'later'), (4, 1, 'first');
insert into user_texts values (1, 1, 'en', 'hi'), (1, 2, 'de', 'hallo'), (1, 3, 'en', 'hello'), (1, 4, null, 'lost');
"#;

pub fn index() -> IndexName {
    IndexName::new("it")
}

pub fn documents(cluster: &Cluster, schema: IndexSchema) -> PostgresDocuments {
    PostgresDocuments::new(cluster.connections(), Arc::new(SourceSpec::new([(index(), schema)])))
}

pub fn key(column: &str, value: &str) -> RowKey {
    keys(&[(column, value)])
}

pub fn keys(pairs: &[(&str, &str)]) -> RowKey {
    let columns: KeyColumns = pairs.iter().map(|(column, _)| Text::from(*column)).collect();
    RowKey::new(columns, pairs.iter().map(|(_, value)| Text::from(*value)))
}

/// What is under these keys: as a page gives it, which is letter by letter what single keys give.
pub async fn built(documents: &PostgresDocuments, keys: &[RowKey]) -> Vec<Built> {
    let by_keys = documents.build_many(&index(), keys).await.unwrap().built;
    let page = documents.build_page(&index(), keys).await.unwrap();
    assert_eq!(page.built, by_keys);
    by_keys
}

/// The document of one root key, which must be there.
pub async fn document(documents: &PostgresDocuments, key: RowKey) -> String {
    let mut built = built(documents, &[key]).await;
    match built.remove(0) {
        Built::Document(text) => {
            let _: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert!(!text.contains(['\n', '\r']), "{text}");
            text
        }
        other => panic!("no document: {other:?}"),
    }
}

/// All that rows touch: row number and document id, in order, each once; and the rows that are not yet visible.
pub async fn touches(documents: &PostgresDocuments, rows: &[ChangedRow]) -> (Vec<(usize, String)>, Vec<usize>) {
    let rows: Vec<&ChangedRow> = rows.iter().collect();
    let index = index();
    let pages: Vec<ResolvedPage> = documents.resolve(&index, &rows).map(|page| page.unwrap()).collect().await;
    let mut touches: Vec<_> =
        pages.iter().flat_map(|page| &page.touches).map(|(row, key)| (*row, key.to_id())).collect();
    touches.sort();
    touches.dedup();
    (touches, pages.iter().flat_map(|page| page.not_yet.clone()).collect())
}
