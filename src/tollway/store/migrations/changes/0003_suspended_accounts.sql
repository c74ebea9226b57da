-- Since when an account is suspended; nothing if it is not.
ALTER TABLE account ADD COLUMN suspended_at_s BIGINT;
