-- One row for each wanted table: what it is, its columns, its indexes, and where its rows are stored.
with recursive
wanted as (
  select c.oid, n.oid as namespace, n.nspname, c.relname, c.relkind, c.relpersistence
  from unnest($1::text[], $2::text[]) as asked(nspname, relname)
  join pg_catalog.pg_namespace n on n.nspname = asked.nspname
  join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = asked.relname
),
-- Partitions at every depth.
partitions as (
  select oid as root, oid from wanted where relkind = 'p'
  union all
  select p.root, i.inhrelid from partitions p join pg_catalog.pg_inherits i on i.inhparent = p.oid
),
-- Where the rows are: the leaves of a partitioned table, else the table itself.
stored as (
  select p.root, c.* from partitions p join pg_catalog.pg_class c on c.oid = p.oid where c.relkind <> 'p'
  union all
  select w.oid, c.* from wanted w join pg_catalog.pg_class c on c.oid = w.oid where w.relkind <> 'p'
),
-- A partitioned table without a leaf still says what its leaves will have.
holders as (
  select s.root, s.oid, s.relkind, s.relpersistence, s.relreplident, s.reltuples from stored s
  union all
  select w.oid, c.oid, c.relkind, 'p', c.relreplident, 0
  from wanted w join pg_catalog.pg_class c on c.oid = w.oid
  where w.relkind = 'p' and not exists (select from stored s where s.root = w.oid)
),
-- Each type on the way to its base: a domain leads to what it is over, an array to its element.
types as (
  select distinct a.atttypid as start, a.atttypid as oid, false as is_array, false as not_null
  from wanted w join pg_catalog.pg_attribute a on a.attrelid = w.oid
  where a.attnum > 0 and not a.attisdropped
  union all
  select t.start, case when p.typtype = 'd' then p.typbasetype else p.typelem end,
         t.is_array or p.typtype <> 'd',
         t.not_null or (p.typtype = 'd' and p.typnotnull and not t.is_array)
  from types t join pg_catalog.pg_type p on p.oid = t.oid
  where p.typtype = 'd' or (p.typcategory = 'A' and p.typelem <> 0)
)
select
  w.nspname::text,
  w.relname::text,
  json_build_object(
    'relkind', w.relkind::text,
    'persistence', w.relpersistence::text,
    -- Objects below the first id that users get are the server's own.
    'system', w.oid < 16384,
    'has_children', exists (select from pg_catalog.pg_inherits i where i.inhparent = w.oid),
    'row_security', pg_catalog.row_security_active(w.oid),
    'columns', (
      select coalesce(json_agg(json_build_object(
        'name', a.attname,
        'native_type', pg_catalog.format_type(a.atttypid, a.atttypmod),
        'base_type', b.typname,
        'of_server', b.typnamespace = 'pg_catalog'::regnamespace,
        'is_array', t.is_array,
        'is_enum', b.typtype = 'e',
        -- Since 18 a constraint may be there without having been checked.
        'nullable', not (t.not_null or (a.attnotnull and not exists (
          select from pg_catalog.pg_constraint k
          where k.conrelid = w.oid and k.contype = 'n' and k.conkey = array[a.attnum] and not k.convalidated))),
        'deterministic', coalesce(co.collisdeterministic, true),
        'generated', a.attgenerated <> '',
        -- Null for what was dropped just now.
        'readable', coalesce(pg_catalog.has_schema_privilege(w.namespace, 'USAGE')
                             and pg_catalog.has_column_privilege(w.oid, a.attnum, 'SELECT'), false)
      ) order by a.attnum), '[]')
      from pg_catalog.pg_attribute a
      join types t on t.start = a.atttypid
      join pg_catalog.pg_type b on b.oid = t.oid
        and b.typtype <> 'd' and not (b.typcategory = 'A' and b.typelem <> 0)
      left join pg_catalog.pg_collation co on co.oid = a.attcollation
      where a.attrelid = w.oid and a.attnum > 0 and not a.attisdropped),
    'indexes', (
      select coalesce(json_agg(json_build_object(
        'name', ic.relname,
        -- Null stands for an expression.
        'columns', (
          select json_agg(a.attname order by k.position)
          from unnest(i.indkey::int2[]) with ordinality as k(attnum, position)
          left join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum and k.attnum > 0
          where k.position <= i.indnkeyatts),
        'unique', i.indisunique,
        'partial', i.indpred is not null,
        'primary', i.indisprimary
      ) order by not i.indisprimary, ic.relname), '[]')
      from pg_catalog.pg_index i
      join pg_catalog.pg_class ic on ic.oid = i.indexrelid
      join pg_catalog.pg_am am on am.oid = ic.relam and am.amname in ('btree', 'hash')
      where i.indrelid = w.oid and i.indisvalid and i.indisready),
    'holders', (
      select coalesce(json_agg(json_build_object(
        'relkind', h.relkind::text,
        'persistence', h.relpersistence::text,
        'rows', greatest(h.reltuples, 0)::int8,
        'old_values', case
          when h.relreplident = 'f' and not exists (
            select from pg_catalog.pg_attribute a
            where a.attrelid = h.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated <> '')
          then null
          else (
            select coalesce(json_agg(a.attname order by a.attnum), '[]')
            from pg_catalog.pg_attribute a
            where a.attrelid = h.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' and (
              h.relreplident = 'f' or exists (
                select from pg_catalog.pg_index i
                where i.indrelid = h.oid and i.indisvalid and i.indimmediate
                  and a.attnum = any (i.indkey::int2[])
                  and ((h.relreplident = 'd' and i.indisprimary) or (h.relreplident = 'i' and i.indisreplident)))))
        end
      )), '[]')
      from holders h where h.root = w.oid)
  )::text
from wanted w
