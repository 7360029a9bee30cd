create table users (id bigint primary key, name text not null);
create table orders (
  id bigint primary key,
  user_id bigint not null references users on delete cascade,
  total numeric(12, 2) not null
);
create index on orders (user_id);
insert into users values (1, 'Ada'), (2, 'Grace');
insert into orders values (10, 1, 19.90), (11, 1, 5.00), (12, 2, 42.00);
