insert into companies select n, 'Company ' || n, case n % 3 when 0 then 'NO' when 1 then 'DE' end
  from generate_series(1, :companies) n;
insert into users select n, 'user' || n || '@example.com', case when n % 7 > 0 then 'User ' || n end, n % 31 = 0,
    case when n % 37 = 0 then timestamptz '2024-01-01 00:00:00+00' + n * interval '1 minute' end,
    case when n % 5 > 0 then 1 + n % :companies end
  from generate_series(1, :users) n;
insert into profiles (user_id, bio) select n, 'Bio of ' || n from generate_series(1, :users) n where n % 4 > 0;
insert into products select n, 'Product ' || n, (n::bigint * 7919 % 100000)::numeric / 100
  from generate_series(1, :products) n;
insert into orders select n, 1 + n % :users, case n % 5 when 0 then 'void' when 1 then 'open' else 'paid' end,
    timestamptz '2024-05-01 12:00:00+00' + n * interval '1 second', (n::bigint * 104729 % 1000000)::numeric / 100
  from generate_series(1, :orders) n;
insert into order_items select o, line, 1 + (o * 3 + line) % :products, 1 + (o + line) % 4
  from generate_series(1, :orders) o, generate_series(1, 3) line;
insert into tags select n, 'tag' || n from generate_series(1, 12) n;
insert into user_tags select n, 1 + (n + t * 5) % 12 from generate_series(1, :users) n, generate_series(0, 1) t;
