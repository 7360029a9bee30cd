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
  attributes jsonb not null,
  active boolean not null
);

-- The columns of streams that read several numbers at one moment. An index is never given to another name.
create table replicates (
  stream text not null,                -- streams.key
  name text not null,
  replicate bigint not null,
  active boolean not null,
  primary key (stream, name),
  unique (stream, replicate)
);

-- Numbers at moments.
create table readings (
  stream text not null,                -- streams.key
  instant timestamptz not null,     -- with microseconds
  replicate bigint not null,          -- replicates.replicate; 0 in a stream that names no columns
  value double precision not null,
  primary key (stream, instant, replicate)
);

-- Transitions of a stream's own state.
create table status_events (
  stream text not null,                -- streams.key
  instant timestamptz not null,
  status text not null,
  message text,
  primary key (stream, instant)
);

-- References that numbers were made by.
create table curves (
  key text not null primary key,
  id text not null unique,
  name text not null,
  points jsonb not null,           -- [[signal, number], …], ascending
  attributes jsonb not null
);

-- The driver's own.

create table millstream_store (
  name text not null primary key,
  value text not null
);
insert into millstream_store (name, value) values ('id', md5(random()::text || clock_timestamp()::text));

create table millstream_streams (
  key text not null primary key,
  line bigint not null unique,        -- orders acks: changes of one line are confirmed in order, lines apart from each other
  descriptor text not null,
  gone bigint not null,               -- 1: neither discovered nor fetched any more
  since bigint,                       -- newest acked instant, microseconds
  checkpoint text,                     -- the backend's mark of the last acked page
  digest text,                         -- of the last acked clean pass
  brake text,                          -- why the brake is on
  released bigint not null            -- 1: the next pass is let through whatever it touches
);

create table millstream_changes (
  seq bigint generated always as identity primary key,
  line bigint not null,
  tbl text not null,
  key text not null,                   -- [[column, text], …]
  op text not null,                    -- u | d
  before text,                         -- link columns and their texts, where there was a row and they differ
  after text                           -- the same, where there is a row
);
create index millstream_changes_line on millstream_changes (line, seq);

-- What becomes true once a line is acked up to seq.
create table millstream_marks (
  number bigint generated always as identity primary key,
  line bigint not null,
  seq bigint not null,
  since bigint,
  says_checkpoint bigint not null,
  checkpoint text,
  digest text
);
create index millstream_marks_line on millstream_marks (line, seq);

create table millstream_reports (
  number bigint generated always as identity primary key,
  kind text not null,
  state text not null,                 -- open | completed | partial | failed
  started bigint not null,            -- microseconds
  ended bigint,
  body text not null
);

create table millstream_commands (
  id text not null primary key,
  name text not null,
  payload text not null,
  state text not null,                 -- running | done | failed
  result text,
  received bigint not null,
  ended bigint
);
