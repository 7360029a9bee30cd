//! Every kind of field, over a real Postgres.

use millstream_core::schema::*;

use crate::cluster::Cluster;
use crate::schema::*;
use crate::shop::{TABLES, document, documents, key};

#[tokio::test]
async fn relations_are_objects_and_arrays_in_order() {
    let cluster = Cluster::start();
    cluster.execute(TABLES).await;
    let items = has_many("items", path("order_items", &[("id", "order_id")]), vec![column("id"), column("quantity")]);
    let mut orders = relation(
        Cardinality::HasMany,
        path("orders", &[("id", "user_id")]),
        vec![column("id"), column("total"), items],
    );
    orders.path.filter = Some(Sql("status <> 'void' -- not these".to_owned()));
    orders.order_by = vec![order("created_at", true)];
    orders.limit = Some(50);
    let mut company =
        relation(Cardinality::BelongsTo, path("companies", &[("company_id", "id")]), vec![column("name")]);
    company.when = Some(Sql("owner_type = 'Company'".to_owned()));
    let tags = through("tags", &[("user_tags", &[("id", "user_id")])], &[("tag_id", "id")]);
    let mut bought = through(
        "products",
        &[("orders", &[("id", "user_id")]), ("order_items", &[("id", "order_id")])],
        &[("product_id", "id")],
    );
    let bought_each = bought.clone();
    bought.distinct = true;
    let mut texts = relation(Cardinality::HasMany, path("user_texts", &[("id", "user_id")]), vec![column("text")]);
    texts.key_by = Some("lang".into());
    let mut inline = relation(
        Cardinality::BelongsTo,
        path("companies", &[("company_id", "id")]),
        vec![
            typed("company", FieldType::Text),
            has_many("staff", path("users", &[("id", "company_id")]), vec![column("id")]),
        ],
    );
    let FieldKind::Column { column: from, .. } = &mut inline.fields[0].kind else { unreachable!() };
    *from = "name".into();
    inline.inline = true;
    let mut schema = index(
        "users",
        vec![
            column("id"),
            constant("kind", "\"user\""),
            sql("upper", "upper(name) -- shouted"),
            field(
                "o",
                FieldKind::Object(vec![
                    column("name"),
                    with("owner_type", of_type(FieldType::Text), &[], Some("\"none\"")),
                ]),
            ),
            field("orders", FieldKind::Relation(orders)),
            field("company", FieldKind::Relation(company)),
            has_one("profile", path("profiles", &[("id", "user_id")]), vec![column("bio")]),
            belongs_to("boss", path("users", &[("boss_id", "id")]), vec![column("name")]),
            has_many("team", path("users", &[("id", "boss_id")]), vec![column("id")]),
            has_many("tags", tags, vec![column("name")]),
            has_many("bought", bought, vec![column("name")]),
            has_many("bought_each", bought_each, vec![column("name")]),
            field("texts", FieldKind::Relation(texts)),
            field("inline", FieldKind::Relation(inline)),
        ],
    );
    schema.filter = Some(Sql("not archived -- ever".to_owned()));
    schema.delete_when = Some(Sql("deleted_at is not null".to_owned()));
    let documents = documents(&cluster, schema);
    assert_eq!(
        document(&documents, key("id", "1")).await,
        r#"{"id":1,"kind":"user","upper":"AL","o":{"name":"Al","owner_type":"Company"},"orders":[{"id":12,"total":2.25,"items":[{"id":102,"quantity":1}]},{"id":10,"total":9.50,"items":[{"id":100,"quantity":2},{"id":101,"quantity":1}]}],"company":{"name":"Acme"},"profile":{"bio":"first"},"boss":null,"team":[{"id":2},{"id":3}],"tags":[{"name":"new"},{"name":"vip"}],"bought":[{"name":"pen"},{"name":"ink"}],"bought_each":[{"name":"pen"},{"name":"pen"},{"name":"ink"}],"texts":{"de":{"text":"hallo"},"en":{"text":"hello"}},"company":"Acme","staff":[{"id":1}]}"#
    );
    assert_eq!(
        document(&documents, key("id", "3")).await,
        r#"{"id":3,"kind":"user","upper":null,"o":{"name":null,"owner_type":"none"},"orders":[],"company":null,"profile":null,"boss":{"name":"Al"},"team":[],"tags":[],"bought":[],"bought_each":[],"texts":{},"company":null,"staff":null}"#
    );
}
