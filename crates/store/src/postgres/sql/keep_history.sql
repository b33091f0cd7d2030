-- Nobody finds that commits of this history are gone before this transaction has ended.
SELECT FROM origin FOR SHARE
