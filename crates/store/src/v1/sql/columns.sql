-- A table's columns, with what a new row needs to be told.
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS required,
       a.atthasdef OR a.attidentity <> '' AS filled
FROM pg_attribute a
WHERE a.attrelid = format('%I.%I', $1::text, $2::text)::regclass AND a.attnum > 0 AND NOT a.attisdropped
