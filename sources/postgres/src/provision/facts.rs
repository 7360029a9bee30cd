use std::collections::BTreeMap;

use millstream_core::{Result, SourceError};
use millstream_model::{QualifiedTable, Text};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sqlx::postgres::PgConnection;

use super::Needs;
use crate::classify;
use crate::identity::{Identity, IdentityFacts, UniqueIndex, index_name};

/// What is there: read in one go, compared with what was there before by the one who watches.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The server's settings and our rights.
    pub server: Server,
    /// The publication, if it is there.
    pub publication: Option<Publication>,
    /// Every relation whose changes matter: an ordinary table itself, a partitioned one and all its leaves.
    pub relations: Vec<Relation>,
}

/// The server's settings and our rights.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Server {
    /// `server_version_num`: 150018 for 15.18.
    pub version: u32,
    /// `wal_level`.
    pub wal_level: String,
    /// `max_replication_slots`.
    pub slots_max: i64,
    /// Slots that are there.
    pub slots: i64,
    /// True when ours is one of them.
    pub has_slot: bool,
    /// True when our role may replicate.
    pub may_replicate: bool,
    /// Our role.
    pub role: String,
    /// True on a standby.
    pub standby: bool,
    /// The database.
    pub database: String,
    /// True when our role may make publications in the database.
    pub may_create: bool,
    /// Of the settings that logical replication needs, those that were changed but take effect only with a restart: the new
    /// value, empty where the role may not read it.
    #[serde(default)]
    pub pending: BTreeMap<String, String>,
    /// True when our role may look into the configuration's files.
    #[serde(default)]
    may_read_files: bool,
}

impl Server {
    /// True when its settings are as logical replication needs them.
    fn suffices(&self) -> bool {
        self.wal_level == "logical" && (self.has_slot || self.slots < self.slots_max)
    }

    /// The value that a setting gets with the next restart, if it is another one; empty where we may not read it.
    pub fn pending(&self, setting: &str) -> Option<&str> {
        self.pending.get(setting).map(String::as_str)
    }
}

/// The publication.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Publication {
    /// Changes when it is dropped and made again.
    pub oid: i64,
    /// Changes when its operations or options are altered (not its tables).
    pub version: String,
    /// True for `FOR ALL TABLES`.
    pub all_tables: bool,
    /// The operations it leaves out.
    pub left_out: Vec<String>,
    /// True when it tells a leaf's changes as its root's.
    pub via_root: bool,
    /// True when it is our role's to alter.
    pub owned: bool,
}

/// One relation that a schema's table stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Relation {
    /// The schemas' table.
    pub table: QualifiedTable,
    /// The relation itself: the same, or a leaf or branch of it.
    pub relation: QualifiedTable,
    /// Its number.
    pub oid: u32,
    /// `r` ordinary, `p` partitioned, and others.
    pub kind: char,
    /// `p` permanent, `u` unlogged, `t` temporary.
    pub persistence: char,
    /// True for an ordinary table that others inherit from.
    pub is_parent: bool,
    /// Where its rows are kept: changes when it is rewritten or truncated.
    pub file: i64,
    /// Each column's number, type and the transaction that last defined it.
    pub columns: BTreeMap<i64, String>,
    /// Names of all columns.
    pub names: Vec<Text>,
    /// The labels of the enums that its columns hold, by number.
    pub labels: BTreeMap<i64, String>,
    /// For a leaf: true when it was made as one, below the table already, so that it never had rows that were not told.
    pub born_as_leaf: bool,
    /// For a leaf: how it hangs below the table, up to the table itself. Changes when it (or a branch above it) is taken away
    /// and attached again.
    pub link: String,
    /// Identity, key and what could serve.
    pub identity: IdentityFacts,
    /// Whether the publication tells its changes.
    pub published: bool,
    /// True when the publication lists the relation itself, not only what it is a part of.
    pub listed: bool,
    /// Changes when it is taken out of the publication and put back.
    pub membership: Option<i64>,
    /// A row filter on it.
    pub filter: Option<String>,
    /// The published columns; `None`: all.
    pub published_columns: Option<Vec<Text>>,
    /// Leading columns of its indexes that cover all rows.
    pub indexes: Vec<Vec<Text>>,
    /// True when it is our role's to alter.
    pub owned: bool,
    /// True when our role may make things in its schema.
    pub may_create: bool,
}

impl Relation {
    /// True when it holds rows of its own: not a partitioned table.
    pub fn holds_rows(&self) -> bool {
        self.kind != 'p'
    }
}

const SERVER: &str = "
select json_build_object(
  'version', current_setting('server_version_num')::int,
  'wal_level', current_setting('wal_level'),
  'slots_max', current_setting('max_replication_slots')::int,
  'slots', (select count(*) from pg_replication_slots),
  'has_slot', exists (select from pg_replication_slots where slot_name = $1),
  'may_replicate', exists (select from pg_roles where rolname = current_user and (rolreplication or rolsuper))
     or exists (select from pg_roles where rolname = 'rds_replication' and pg_has_role(oid, 'MEMBER')),
  'role', current_user,
  'standby', pg_is_in_recovery(),
  'database', current_database(),
  'may_create', has_database_privilege(current_database(), 'CREATE'),
  'pending', (select coalesce(json_object_agg(name, ''), '{}') from pg_settings
     where pending_restart and name in ('wal_level', 'max_replication_slots', 'max_wal_senders')),
  'may_read_files', has_table_privilege('pg_catalog.pg_file_settings', 'SELECT')
     and has_function_privilege('pg_catalog.pg_show_all_file_settings()', 'EXECUTE'))::text";

/// What the configuration's files say otherwise than the server does; read only by those who may.
const PENDING: &str = "
select coalesce(json_object_agg(name, setting), '{}')::text from (
  select distinct on (name) name, setting from pg_file_settings
  where name in ('wal_level', 'max_replication_slots', 'max_wal_senders') order by name, seqno desc) f
where setting is distinct from current_setting(name)";

const PUBLICATION: &str = "
select json_build_object(
  'oid', p.oid::int8, 'version', p.xmin::text, 'all_tables', p.puballtables, 'via_root', p.pubviaroot,
  'owned', pg_has_role(p.pubowner, 'USAGE'),
  'left_out', array_remove(array[
     case when not pubinsert then 'insert' end, case when not pubupdate then 'update' end,
     case when not pubdelete then 'delete' end, case when not pubtruncate then 'truncate' end], null))::text
from pg_publication p where p.pubname = $1";

/// `step`: who hangs below whom, when it was tied there and when it was made (of both: transaction and command). Born as a leaf
/// is who was tied as it was made, below branches that were tied before (`tied`: of those above, the ones that were not born so).
const RELATIONS: &str = "
with recursive asked as (
  select a.at, c.oid, c.relkind
  from unnest($1::text[], $2::text[]) with ordinality as a(nsp, rel, at)
  join pg_namespace n on n.nspname = a.nsp
  join pg_class c on c.relnamespace = n.oid and c.relname = a.rel
), step as (
  select i.inhparent, i.inhrelid, i.xmin::text::int8 as tied, i.cmin::text::int8 as tied_at,
    a.xmin::text::int8 as made, a.cmin::text::int8 as made_at,
    i.xmin = a.xmin and i.cmin::text::int8 - a.cmin::text::int8 <= 2 as born
  from pg_inherits i join pg_attribute a on a.attrelid = i.inhrelid and a.attname = 'tableoid'
), tree as (
  select at, oid, relkind, oid as top, '' as link, false as born, '{}'::int8[] as tied, '{}'::int8[] as tied_at from asked
  union all
  select t.at, c.oid, c.relkind, t.top, concat_ws(':', nullif(t.link, ''), s.tied),
    s.born and not exists (select from unnest(t.tied, t.tied_at) u(x, c)
      where case when u.x = s.made then s.made_at < u.c else mod(s.made - u.x + 4294967296, 4294967296) >= 2147483648 end),
    case when s.born then t.tied else t.tied || s.tied end, case when s.born then t.tied_at else t.tied_at || s.tied_at end
  from tree t join step s on s.inhparent = t.oid join pg_class c on c.oid = s.inhrelid
  where t.relkind = 'p'
), told as (
  select schemaname, tablename, to_jsonb(v)->'attnames' as columns, to_jsonb(v)->>'rowfilter' as filter
  from pg_publication_tables v where pubname = $3
), member as (
  select r.prrelid, r.oid::int8 as id from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
  where p.pubname = $3
)
select json_build_object(
  'at', t.at, 'oid', c.oid::int8, 'schema', n.nspname, 'name', c.relname, 'kind', c.relkind,
  'persistence', c.relpersistence, 'file', c.relfilenode::int8,
  'owned', pg_has_role(c.relowner, 'USAGE'), 'may_create', has_schema_privilege(n.oid, 'CREATE'),
  'is_parent', c.relkind = 'r' and exists (select from pg_inherits where inhparent = c.oid),
  'replident', c.relreplident,
  'columns', (select json_object_agg(a.attnum, concat_ws(':', a.atttypid, a.atttypmod, a.xmin))
     from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
  'names', (select coalesce(json_agg(a.attname order by a.attnum), '[]')
     from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
  'labels', (select coalesce(json_object_agg(e.oid::int8, e.enumlabel), '{}')
     from pg_enum e where e.enumtypid in (select unnest(array[y.oid, y.typelem, y.typbasetype])
       from pg_attribute a join pg_type y on y.oid = a.atttypid
       where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)),
  'not_null', (select coalesce(json_agg(a.attname), '[]')
     from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attnotnull),
  'born_as_leaf', t.born, 'link', t.link,
  'indexes', (select coalesce(json_agg(json_build_object(
       'name', ic.relname, 'unique', x.indisunique, 'primary', x.indisprimary, 'immediate', x.indimmediate,
       'valid', x.indisvalid, 'partial', x.indpred is not null, 'identity', x.indisreplident,
       'columns', (select coalesce(json_agg(a.attname order by k.n), '[]')
          from unnest(x.indkey::int2[]) with ordinality k(att, n)
          left join pg_attribute a on a.attrelid = x.indrelid and a.attnum = k.att and k.att > 0
          where k.n <= x.indnkeyatts))), '[]')
     from pg_index x join pg_class ic on ic.oid = x.indexrelid where x.indrelid = c.oid),
  'published', told.tablename is not null or member.id is not null, 'filter', told.filter, 'told', told.columns,
  'membership', member.id, 'listed', exists (select from member m where m.prrelid = c.oid))::text
from tree t
join pg_class c on c.oid = t.oid
join pg_namespace n on n.oid = c.relnamespace
left join told on told.schemaname = n.nspname and told.tablename = c.relname
left join lateral (select sum(id)::int8 as id from member where prrelid in (c.oid, t.top)) member on true
order by t.at, n.nspname, c.relname";

#[derive(Deserialize)]
struct RawIndex {
    name: String,
    unique: bool,
    primary: bool,
    immediate: bool,
    valid: bool,
    partial: bool,
    identity: bool,
    /// `None` in place of an expression.
    columns: Vec<Option<Text>>,
}

impl RawIndex {
    fn plain_columns(&self) -> Option<Vec<Text>> {
        self.columns.iter().cloned().collect()
    }

    fn leading_columns(&self) -> Vec<Text> {
        self.columns.iter().map_while(Clone::clone).collect()
    }
}

#[derive(Deserialize)]
struct RawRelation {
    at: usize,
    oid: u32,
    schema: String,
    name: String,
    kind: char,
    persistence: char,
    file: i64,
    is_parent: bool,
    replident: char,
    columns: Option<BTreeMap<i64, String>>,
    names: Vec<Text>,
    labels: BTreeMap<i64, String>,
    not_null: Vec<Text>,
    born_as_leaf: bool,
    link: String,
    indexes: Vec<RawIndex>,
    published: bool,
    listed: bool,
    filter: Option<String>,
    told: Option<Vec<Text>>,
    membership: Option<i64>,
    owned: bool,
    may_create: bool,
}

impl RawRelation {
    fn into_relation(self, table: QualifiedTable) -> Relation {
        let relation = QualifiedTable::new(&self.schema, &self.name);
        let valid = || self.indexes.iter().filter(|index| index.valid && !index.partial);
        let key = valid().find(|index| index.primary).and_then(RawIndex::plain_columns).unwrap_or_default();
        let identity = match self.replident {
            'f' => Identity::Full,
            'n' => Identity::Nothing,
            'i' => Identity::Index(valid().find(|index| index.identity).and_then(RawIndex::plain_columns)),
            _ => Identity::Default,
        };
        let candidates = valid()
            .filter(|index| index.unique && index.immediate)
            .filter_map(|index| Some(UniqueIndex { name: index.name.clone(), columns: index.plain_columns()? }))
            .filter(|index| index.columns.iter().all(|column| self.not_null.contains(column)))
            .collect();
        let ours = index_name(&relation);
        let broken_index = self.indexes.iter().any(|index| index.name == ours && !index.valid);
        let indexes = valid().map(RawIndex::leading_columns).collect();
        let published_columns = self.told.filter(|told| !self.names.iter().all(|name| told.contains(name)));
        Relation {
            table,
            relation,
            oid: self.oid,
            kind: self.kind,
            persistence: self.persistence,
            is_parent: self.is_parent,
            file: self.file,
            columns: self.columns.unwrap_or_default(),
            names: self.names,
            labels: self.labels,
            born_as_leaf: self.born_as_leaf,
            link: self.link,
            identity: IdentityFacts { identity, key, not_null: self.not_null, candidates, broken_index },
            published: self.published,
            listed: self.listed,
            membership: self.membership,
            filter: self.filter,
            published_columns,
            indexes,
            owned: self.owned,
            may_create: self.may_create,
        }
    }
}

impl Facts {
    /// Reads them: three queries, and one more where the server's settings don't suffice.
    ///
    /// # Errors
    /// When the server can't be asked.
    pub async fn read(connection: &mut PgConnection, publication: &str, slot: &str, needs: &Needs) -> Result<Self> {
        let doing = |error| classify("can't inspect the database", error);
        let server: String = sqlx::query_scalar(SERVER).bind(slot).fetch_one(&mut *connection).await.map_err(doing)?;
        let found: Option<String> =
            sqlx::query_scalar(PUBLICATION).bind(publication).fetch_optional(&mut *connection).await.map_err(doing)?;
        let tables: Vec<&QualifiedTable> = needs.tables().map(|need| &need.table).collect();
        let schemas: Vec<&str> = tables.iter().map(|table| table.schema()).collect();
        let names: Vec<&str> = tables.iter().map(|table| table.table()).collect();
        let rows: Vec<String> = sqlx::query_scalar(RELATIONS)
            .bind(schemas)
            .bind(names)
            .bind(publication)
            .fetch_all(&mut *connection)
            .await
            .map_err(doing)?;
        let mut relations = Vec::with_capacity(rows.len());
        for row in rows {
            let raw: RawRelation = read_json(&row)?;
            let table = raw.at.checked_sub(1).and_then(|at| tables.get(at));
            let table = table.ok_or_else(|| SourceError::decode("the catalog answered for a table not asked for"))?;
            relations.push(raw.into_relation((*table).clone()));
        }
        let publication = found.as_deref().map(read_json).transpose()?;
        let mut server: Server = read_json(&server)?;
        if server.may_read_files && !server.suffices() {
            let pending: String = sqlx::query_scalar(PENDING).fetch_one(connection).await.map_err(doing)?;
            server.pending.extend(read_json::<BTreeMap<String, String>>(&pending)?);
        }
        Ok(Self { server, publication, relations })
    }

    /// The relation that a schema's table is itself.
    pub fn root(&self, table: &QualifiedTable) -> Option<&Relation> {
        self.relations.iter().find(|relation| relation.relation == *table && relation.table == *table)
    }

    /// Those that hold a table's rows: itself, or its leaves.
    pub fn leaves<'a>(&'a self, table: &'a QualifiedTable) -> impl Iterator<Item = &'a Relation> + 'a {
        self.relations.iter().filter(move |relation| relation.table == *table && relation.holds_rows())
    }
}

fn read_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| SourceError::decode("the catalog answered in an unknown form").with_cause(error))
}
