//! What many cases begin with.

use std::sync::Arc;

use millstream_tests::{Cluster, Stage};

/// Parents and their children.
pub(crate) const FAMILY: &str = "
    create table parents (id int primary key, name text);
    create table children (
      id int primary key, parent_id int references parents on update cascade on delete cascade, name text);
    create index on children (parent_id);
";

/// Parents with their children.
pub(crate) const FAMILY_SCHEMA: &str = "
table: parents
fields:
  id: integer
  name: { type: text, nullable: true }
  children:
    has_many: children
    join: { id: parent_id }
    fields: { id: integer, name: { type: text, nullable: true } }
";

/// What those documents should be.
pub(crate) const FAMILY_ORACLE: &str = "
select p.id, json_build_object('id', p.id, 'name', p.name, 'children', coalesce((
  select json_agg(json_build_object('id', c.id, 'name', c.name) order by c.id) from children c where c.parent_id = p.id),
  '[]'::json))
from parents p";

/// A stage with the family's tables and index in a database of its own on the shared server.
pub(crate) async fn family(test: &str) -> Stage {
    with_family(Stage::new(test).await).await
}

/// The same on a server of its own.
pub(crate) async fn family_on(cluster: &Arc<Cluster>, test: &str) -> Stage {
    with_family(Stage::on(cluster, test).await).await
}

async fn with_family(mut stage: Stage) -> Stage {
    stage.run(FAMILY).await;
    stage.index("parents", FAMILY_SCHEMA, FAMILY_ORACLE);
    stage
}

/// A table that holds one text by key, its schema and oracle: the least that can be watched.
pub(crate) const NOTES: &str = "create table notes (id int primary key, body text)";

/// Its schema.
pub(crate) const NOTES_SCHEMA: &str = "{ table: notes, fields: { id: integer, body: { type: text, nullable: true } } }";

/// Its oracle.
pub(crate) const NOTES_ORACLE: &str = "select id, json_build_object('id', id, 'body', body) from notes";

/// A stage with notes.
pub(crate) async fn notes(test: &str) -> Stage {
    let mut stage = Stage::new(test).await;
    stage.run(NOTES).await;
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    stage
}

/// The same on a server of its own.
pub(crate) async fn notes_on(cluster: &Arc<Cluster>, test: &str) -> Stage {
    let mut stage = Stage::on(cluster, test).await;
    stage.run(NOTES).await;
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    stage
}
