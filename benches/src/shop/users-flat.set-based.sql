select '{"id":' || u.id || ',"email":' || to_json(lower(u.email)) || ',"name":' || to_json(coalesce(u.name, 'anonymous'))
  || ',"company_id":' || coalesce(u.company_id::text, 'null') || ',"archived":' || u.archived::text || '}'
from users u
where u.id between :from and :to and not u.archived and u.deleted_at is null
