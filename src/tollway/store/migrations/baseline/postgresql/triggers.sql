-- Triggers and their functions.

-- Every process that listens is notified when a version changes.
CREATE FUNCTION tollway_notify_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tollway_changed', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER version_changed AFTER UPDATE ON version FOR EACH ROW
    WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION tollway_notify_changed();

-- The trail of operators' acts: SQLite has two triggers for this (ledger.sql).
CREATE FUNCTION tollway_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the trail of acts is never changed';
END
$$;
CREATE TRIGGER operator_act_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON operator_act
    FOR EACH STATEMENT EXECUTE FUNCTION tollway_refuse_change();
