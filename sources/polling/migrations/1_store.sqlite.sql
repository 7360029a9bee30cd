-- For schema authors: what documents may join.

-- What streams there are. One that the source no longer has is not active; its rows stay.
create table streams (
  key text not null primary key,
  id text not null unique,
  name text not null,
  carries text not null,               -- readings | records
  mode text not null,                  -- append | reconciled
  unit text,
  curve text,                          -- curves.id
  attributes json_text not null,
  active boolean not null
);

-- The columns of streams that read several numbers at one moment. An index is never given to another name.
create table replicates (
  stream text not null,                -- streams.key
  name text not null,
  replicate integer not null,
  active boolean not null,
  primary key (stream, name),
  unique (stream, replicate)
);

-- Numbers at moments.
create table readings (
  stream text not null,                -- streams.key
  instant timestamp_text not null,     -- UTC: 2026-01-31T12:00:00.000000Z
  replicate integer not null,          -- replicates.replicate; 0 in a stream that names no columns
  value real not null,
  primary key (stream, instant, replicate)
) without rowid;

-- Transitions of a stream's own state.
create table status_events (
  stream text not null,                -- streams.key
  instant timestamp_text not null,
  status text not null,
  message text,
  primary key (stream, instant)
) without rowid;

-- References that numbers were made by.
create table curves (
  key text not null primary key,
  id text not null unique,
  name text not null,
  points json_text not null,           -- [[signal, number], …], ascending
  attributes json_text not null
);

-- The driver's own.

create table millstream_store (
  name text not null primary key,
  value text not null
);
insert into millstream_store (name, value) values ('id', lower(hex(randomblob(16))));

create table millstream_streams (
  key text not null primary key,
  line integer not null unique,        -- orders acks: changes of one line are confirmed in order, lines apart from each other
  descriptor text not null,
  gone integer not null,               -- 1: neither discovered nor fetched any more
  since integer,                       -- newest acked instant, microseconds
  checkpoint text,                     -- the backend's mark of the last acked page
  digest text,                         -- of the last acked clean pass
  brake text,                          -- why the brake is on
  released integer not null            -- 1: the next pass is let through whatever it touches
);

create table millstream_changes (
  seq integer not null primary key autoincrement,
  line integer not null,
  tbl text not null,
  key text not null,                   -- [[column, text], …]
  op text not null,                    -- u | d
  before text,                         -- link columns and their texts, where there was a row and they differ
  after text                           -- the same, where there is a row
);
create index millstream_changes_line on millstream_changes (line, seq);

-- What becomes true once a line is acked up to seq.
create table millstream_marks (
  number integer not null primary key autoincrement,
  line integer not null,
  seq integer not null,
  since integer,
  says_checkpoint integer not null,
  checkpoint text,
  digest text
);
create index millstream_marks_line on millstream_marks (line, seq);

create table millstream_reports (
  number integer not null primary key autoincrement,
  kind text not null,
  state text not null,                 -- open | completed | partial | failed
  started integer not null,            -- microseconds
  ended integer,
  body text not null
);

create table millstream_commands (
  id text not null primary key,
  name text not null,
  payload text not null,
  state text not null,                 -- running | done | failed
  result text,
  received integer not null,
  ended integer
);
