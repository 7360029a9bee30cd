select p.id, json_build_object(
  'id', p.id,
  'name', p.name,
  'price', p.price,
  'sold', (select sum(i.quantity) from order_items i where i.product_id = p.id),
  'buyers', coalesce((
    select json_agg(json_build_object('id', u.id, 'email', u.email) order by u.id)
    from users u
    where exists (
      select from order_items i join orders o on o.id = i.order_id where i.product_id = p.id and o.user_id = u.id)
  ), '[]'::json)
)
from products p
