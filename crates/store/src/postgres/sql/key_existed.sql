SELECT EXISTS (SELECT FROM api_closed) AS existed
