SELECT a.* FROM attempt a WHERE a.tx_id = $1 ORDER BY a.number
