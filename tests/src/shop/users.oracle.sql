select u.id, json_build_object(
  'id', u.id,
  'email', lower(u.email),
  'name', coalesce(u.name, 'anonymous'),
  'company', (select json_build_object('id', c.id, 'name', c.name, 'country', c.country) from companies c where c.id = u.company_id),
  'profile', (select json_build_object('bio', p.bio) from profiles p where p.user_id = u.id order by p.id limit 1),
  'orders', coalesce((
    select json_agg(json_build_object(
      'id', o.id, 'status', o.status, 'placed_at', o.placed_at, 'total', o.total,
      'items', coalesce((
        select json_agg(json_build_object(
          'line', i.line, 'quantity', i.quantity,
          'product', (select json_build_object('id', p.id, 'name', p.name, 'price', p.price) from products p where p.id = i.product_id)
        ) order by i.line)
        from order_items i where i.order_id = o.id), '[]'::json)
    ) order by o.placed_at desc, o.id)
    from orders o where o.user_id = u.id and o.status <> 'void'), '[]'::json),
  'tags', coalesce((
    select json_agg(json_build_object('id', t.id, 'name', t.name) order by t.name, t.id)
    from user_tags ut join tags t on t.id = ut.tag_id where ut.user_id = u.id), '[]'::json),
  'order_count', (select count(*) from orders o where o.user_id = u.id and o.status <> 'void'),
  'lifetime', (select sum(o.total) from orders o where o.user_id = u.id),
  'tag_names', coalesce((
    select json_agg(t.name order by t.name, t.id)
    from user_tags ut join tags t on t.id = ut.tag_id where ut.user_id = u.id), '[]'::json)
)
from users u
where not u.archived and u.deleted_at is null
