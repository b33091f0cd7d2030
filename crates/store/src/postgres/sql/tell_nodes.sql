SELECT pg_notify('stile', t.text) FROM unnest($1::text[]) AS t (text)
