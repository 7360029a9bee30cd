select c.id, json_build_object(
  'id', c.id,
  'name', c.name,
  'country', c.country,
  'staff', (select count(*) from users u where u.company_id = c.id),
  'members', coalesce((
    select json_agg(json_build_object(
      'id', u.id, 'name', u.name,
      'bio', (select p.bio from profiles p where p.user_id = u.id order by p.id limit 1)
    ) order by u.id)
    from users u where u.company_id = c.id and u.deleted_at is null), '[]'::json)
)
from companies c
