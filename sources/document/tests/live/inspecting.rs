//! What keeps an index from being built, by name.

use std::sync::Arc;

use millstream_core::schema::*;
use millstream_core::{Diagnostic, SourceErrorKind, SourceSpec};
use millstream_document::{Built, DocumentBuilder, PostgresDocuments};

use crate::cluster::Cluster;
use crate::schema::*;
use crate::shop::{TABLES, document, documents, index as name, key};

fn orders() -> IndexSchema {
    let orders = has_many("orders", path("orders", &[("id", "user_id")]), vec![column("id"), column("total")]);
    index("users", vec![column("name"), orders])
}

fn as_role(cluster: &Cluster, role: &str) -> PostgresDocuments {
    PostgresDocuments::new(cluster.connections_as(role), Arc::new(SourceSpec::new([(name(), orders())])))
}

fn errors(found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    found.into_iter().filter(Diagnostic::is_error).collect()
}

#[tokio::test]
async fn case_f4_a_missing_right_is_named_with_its_grant() {
    let cluster = Cluster::start();
    cluster.execute(TABLES).await;
    cluster.execute("create role reader login; grant select on users to reader").await;
    let documents = as_role(&cluster, "reader");
    let found = errors(documents.inspect(&name()).await.unwrap());
    assert!(found[0].remedy.contains(r#"GRANT SELECT ON "public"."orders" TO "reader""#), "{found:?}");
    assert_eq!(found[0].path, "fields.orders");
    let error = documents.build_many(&name(), &[key("id", "1")]).await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Setup, "{error}");
    cluster.execute("grant select on orders to reader").await;
    assert!(errors(documents.inspect(&name()).await.unwrap()).is_empty());
    assert!(document(&documents, key("id", "1")).await.starts_with(r#"{"name":"Al","orders":[{"id":10,"#));
}

#[tokio::test]
async fn case_f4_row_level_security_is_never_taken_for_no_rows() {
    let cluster = Cluster::start();
    cluster.execute(TABLES).await;
    cluster
        .execute(
            "create role reader login; grant select on users, orders to reader; \
             alter table orders enable row level security; create policy big_ones on orders using (total > 5)",
        )
        .await;
    let documents = as_role(&cluster, "reader");
    let found = errors(documents.inspect(&name()).await.unwrap());
    assert!(found.iter().any(|found| found.message.contains("row-level security")), "{found:?}");
    assert_eq!(documents.build_many(&name(), &[key("id", "1")]).await.unwrap_err().kind(), SourceErrorKind::Setup);
    let accepting = documents.accept_row_level_security(true);
    assert!(errors(accepting.inspect(&name()).await.unwrap()).is_empty());
    assert_eq!(document(&accepting, key("id", "1")).await, r#"{"name":"Al","orders":[{"id":10,"total":9.50}]}"#);
}

#[tokio::test]
async fn case_c13_a_used_column_that_is_gone_is_named_and_comes_back() {
    let cluster = Cluster::start();
    cluster.execute(TABLES).await;
    let documents = documents(&cluster, orders());
    assert!(errors(documents.inspect(&name()).await.unwrap()).is_empty());
    let before = document(&documents, key("id", "1")).await;
    cluster.execute("alter table orders drop column status; alter table users add column more int").await;
    assert_eq!(document(&documents, key("id", "1")).await, before);
    cluster.execute("alter table orders rename column total to amount").await;
    let error = documents.build_many(&name(), &[key("id", "1")]).await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::UnknownColumn, "{error}");
    let found = errors(documents.inspect(&name()).await.unwrap());
    assert!(found[0].message.contains("total"), "{found:?}");
    cluster.execute("alter table orders rename column amount to total").await;
    assert_eq!(document(&documents, key("id", "1")).await, before);
    cluster.execute("alter table orders alter column total type text").await;
    documents.inspect(&name()).await.unwrap();
    assert!(document(&documents, key("id", "1")).await.contains(r#""total":"9.50""#));
    cluster.execute("drop table orders").await;
    let found = errors(documents.inspect(&name()).await.unwrap());
    assert!(found[0].message.contains("orders"), "{found:?}");
}

#[tokio::test]
async fn a_relaxed_column_never_makes_a_document_vanish() {
    let cluster = Cluster::start();
    cluster.execute("create table n (id int primary key, a text not null); insert into n values (1, 'x')").await;
    let documents = documents(&cluster, index("n", vec![column("a")]));
    assert_eq!(document(&documents, key("id", "1")).await, r#"{"a":"x"}"#);
    cluster.execute("alter table n alter column a drop not null; update n set a = null").await;
    assert_eq!(document(&documents, key("id", "1")).await, r#"{"a":null}"#);
}

#[tokio::test]
async fn case_h12_one_row_that_cant_be_built_fails_as_a_query() {
    let cluster = Cluster::start();
    cluster.execute("create table n (id int primary key, a int); insert into n values (1, 1), (2, 0)").await;
    let documents = documents(&cluster, index("n", vec![sql("q", "10 / a")]));
    let both = documents.build_many(&name(), &[key("id", "1"), key("id", "2")]).await.unwrap_err();
    assert_eq!(both.kind(), SourceErrorKind::Query);
    let built = documents.build_many(&name(), &[key("id", "1")]).await.unwrap().built;
    assert_eq!(built, [Built::Document(r#"{"q":10}"#.to_owned())]);
}
