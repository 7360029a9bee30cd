with roots as materialized (
  select * from users where id between :from and :to and not archived and deleted_at is null
),
items as (
  select i.order_id, '[' || string_agg('{"line":' || i.line || ',"quantity":' || i.quantity || ',"product":'
      || coalesce('{"id":' || p.id || ',"name":' || to_json(p.name)::text || ',"price":' || p.price || '}', 'null') || '}',
      ',' order by i.line) || ']' as j
  from orders o join order_items i on i.order_id = o.id left join products p on p.id = i.product_id
  where o.user_id between :from and :to and o.status <> 'void'
  group by i.order_id
),
baskets as (
  select o.user_id, sum(o.total) as lifetime, count(*) filter (where o.status <> 'void') as order_count,
    '[' || string_agg('{"id":' || o.id || ',"status":' || to_json(o.status)::text || ',"placed_at":' || to_json(o.placed_at)::text
      || ',"total":' || coalesce(o.total::text, 'null') || ',"items":' || coalesce(i.j, '[]') || '}',
      ',' order by o.placed_at desc, o.id) filter (where o.status <> 'void') || ']' as j
  from orders o left join items i on i.order_id = o.id
  where o.user_id between :from and :to
  group by o.user_id
),
labels as (
  select ut.user_id,
    '[' || string_agg('{"id":' || t.id || ',"name":' || to_json(t.name)::text || '}', ',' order by t.name, t.id) || ']' as tags,
    '[' || string_agg(to_json(t.name)::text, ',' order by t.name, t.id) || ']' as names
  from user_tags ut join tags t on t.id = ut.tag_id
  where ut.user_id between :from and :to
  group by ut.user_id
),
bios as (
  select distinct on (user_id) user_id, '{"bio":' || coalesce(to_json(bio)::text, 'null') || '}' as j
  from profiles where user_id between :from and :to
  order by user_id, id
)
select '{"id":' || u.id || ',"email":' || to_json(lower(u.email))::text || ',"name":' || to_json(coalesce(u.name, 'anonymous'))::text
  || ',"company":' || coalesce('{"id":' || c.id || ',"name":' || to_json(c.name)::text || ',"country":'
    || coalesce(to_json(c.country)::text, 'null') || '}', 'null')
  || ',"profile":' || coalesce(b.j, 'null') || ',"orders":' || coalesce(o.j, '[]') || ',"tags":' || coalesce(l.tags, '[]')
  || ',"order_count":' || coalesce(o.order_count, 0) || ',"lifetime":' || coalesce(o.lifetime::text, 'null')
  || ',"tag_names":' || coalesce(l.names, '[]') || '}'
from roots u
left join companies c on c.id = u.company_id
left join bios b on b.user_id = u.id
left join baskets o on o.user_id = u.id
left join labels l on l.user_id = u.id
