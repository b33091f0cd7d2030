SELECT to_regclass(format('%I.stile_cutover', $1::text)) IS NOT NULL AS has_table,
       (SELECT count(*) FROM pg_trigger t
        WHERE t.tgname IN ('stile_stop_fence', 'stile_stop_truncate') AND NOT t.tgisinternal
          AND t.tgrelid IN (format('%I.%I', $1::text, $2::text)::regclass,
                            format('%I.%I', $1::text, $3::text)::regclass)) AS triggers
