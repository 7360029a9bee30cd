//! A small shop.

pub const TABLES: &str = r#"
create table companies (id integer primary key, name text not null);
create table users (id integer primary key, name text, company_id integer, boss_id integer, owner_type text, deleted_at timestamp_text, archived boolean not null default 0);
create table orders (id integer primary key, user_id integer, total decimal_text, status text, created_at timestamp_text);
create table order_items (id integer primary key, order_id integer, product_id integer, quantity integer, unit_price decimal_text, weight real);
create table products (id integer primary key, name text);
create table tags (id integer primary key, name text);
create table user_tags (user_id integer not null, tag_id integer not null, primary key (user_id, tag_id)) without rowid;
create table profiles (id integer primary key, user_id integer, bio text);
create table user_texts (user_id integer not null, n integer not null, lang text, text text, primary key (user_id, n));
create index o on orders (user_id); create index i on order_items (order_id); create index u on users (company_id);
insert into companies values (1, 'Acme'), (2, 'It''s "quoted" \ back');
insert into users values (1, 'Al', 1, null, 'Company', null, 0), (2, 'Bo', 2, 1, 'Person', null, 0), (3, null, null, 1, null, null, 0);
insert into orders values (10, 1, '9.50', 'paid', '2024-01-02T00:00:00.000000Z'), (11, 1, '1.00', 'void', '2024-01-03T00:00:00.000000Z'),
  (12, 1, '2.25', 'paid', null), (20, 2, '7', 'paid', '2024-02-01T00:00:00.000000Z');
insert into order_items values (100, 10, 1, 2, '3.00', 0.1), (101, 10, 2, 1, '3.50', 0.2), (102, 12, 1, 1, '2.25', 0.3), (200, 20, 2, 1, '7', 1e70);
insert into products values (1, 'pen'), (2, 'ink');
insert into tags values (1, 'new'), (2, 'vip');
insert into user_tags values (1, 1), (1, 2), (2, 2);
insert into profiles values (5, 1, 'later'), (4, 1, 'first');
insert into user_texts values (1, 1, 'en', 'hi'), (1, 2, 'de', 'hallo'), (1, 3, 'en', 'hello'), (1, 4, null, 'lost');
"#;
