-- The database would not have it otherwise.
DROP TRIGGER IF EXISTS lane_is_never_deleted ON lane
